package kafka

import (
	"fmt"

	"github.com/shardctl/shardctl/pkg/tasks/subscribe"
)

// found is what is known of a partition when a subscription opens.
type found struct {
	kept       *mark // nil: no position was kept
	first, end int64 // the log holds the offsets from first up to, and without, end
	common     int64 // how far the log is the one that kept is of; -1: not known
	start      int64 // where to begin without a position
	recreated  bool  // kept is of an earlier topic of this name
}

// lost says why the log does not hold the position; empty: it does.
func (f found) lost() string {
	switch {
	case f.kept == nil:
		return ""
	case f.recreated:
		return "the topic was deleted and created again"
	case f.kept.Offset < f.first:
		return fmt.Sprintf("the messages before offset %d were deleted", f.first)
	case f.kept.Offset > f.end:
		return fmt.Sprintf("the log was truncated and ends at offset %d, or the topic is another", f.end)
	case f.common >= 0 && f.kept.Offset > f.common:
		return fmt.Sprintf("the log was truncated at offset %d and goes on with other messages", f.common)
	}
	return ""
}

// begin is where to begin, and why not at the position that was kept; with missing: stop that is an error.
func (f found) begin(missing string) (at mark, lost string, err error) {
	lost = f.lost()
	switch {
	case f.kept == nil:
		return mark{Offset: f.start, Epoch: -1}, "", nil
	case lost == "":
		return *f.kept, "", nil
	case missing == Latest:
		return mark{Offset: f.end, Epoch: -1}, lost, nil
	case missing == Earliest:
		return mark{Offset: f.earliest(), Epoch: -1}, lost, nil
	}
	return mark{}, lost, fmt.Errorf("position %d is lost: %s; the log holds offsets %d to %d: "+
		"set kafka.missing to earliest or latest to go on from there: %w",
		f.kept.Offset, lost, f.first, f.end-1, subscribe.ErrStop)
}

// earliest is where a lost position goes on so that nothing is skipped. Where the log is known to be the same one up to
// an offset, what comes before that was worked on.
func (f found) earliest() int64 {
	if !f.recreated && f.common >= f.first && f.common <= f.end && f.kept.Offset > f.common {
		return f.common
	}
	return f.first
}
