package kafka

import (
	"errors"
	"strings"
	"testing"

	"github.com/shardctl/shardctl/pkg/tasks/subscribe"
)

func TestBegin(t *testing.T) {
	at := func(offset int64) *mark { return &mark{Offset: offset, Epoch: 3} }
	log := found{first: 10, end: 50, common: -1, start: 10}
	with := func(change func(f *found)) found {
		f := log
		change(&f)
		return f
	}
	for name, c := range map[string]struct {
		found            found
		earliest, latest int64  // where it begins by missing
		lost             string // empty: it is not, and missing makes no difference
	}{
		"no position": {with(func(f *found) { f.start = 17 }), 17, 17, ""},
		"in the log":  {with(func(f *found) { f.kept = at(20) }), 20, 20, ""},
		"at its end":  {with(func(f *found) { f.kept = at(50) }), 50, 50, ""},
		"at its beginning": {
			with(func(f *found) { f.kept = at(10) }), 10, 10, "",
		},
		"same epoch": {with(func(f *found) { f.kept, f.common = at(20), 50 }), 20, 20, ""},
		"deleted":    {with(func(f *found) { f.kept = at(9) }), 10, 50, "the messages before offset 10 were deleted"},
		"beyond the end": {
			with(func(f *found) { f.kept = at(51) }), 10, 50, "the log was truncated and ends at offset 50",
		},
		"truncated, and known where": {
			with(func(f *found) { f.kept, f.common = at(51), 45 }), 45, 50,
			"the log was truncated and ends at offset 50",
		},
		"truncated, and written on": {
			with(func(f *found) { f.kept, f.common = at(48), 40 }), 40, 50,
			"the log was truncated at offset 40 and goes on with other messages",
		},
		"the common part was deleted": {
			with(func(f *found) { f.kept, f.common = at(48), 5 }), 10, 50, "the log was truncated at offset 5",
		},
		"another topic": {
			with(func(f *found) { f.kept, f.recreated = at(20), true }), 10, 50,
			"the topic was deleted and created again",
		},
	} {
		t.Run(name, func(t *testing.T) {
			for missing, want := range map[string]int64{Earliest: c.earliest, Latest: c.latest, Stop: c.earliest} {
				got, lost, err := c.found.begin(missing)
				switch {
				case !strings.HasPrefix(lost, c.lost) || (lost == "") != (c.lost == ""):
					t.Errorf("%s: lost %q, want %q", missing, lost, c.lost)
				case missing == Stop && lost != "":
					if !errors.Is(err, subscribe.ErrStop) || !strings.Contains(err.Error(), "holds offsets 10 to 49") {
						t.Errorf("stop: got %v", err)
					}
				case err != nil || got.Offset != want:
					t.Errorf("%s: begins at %v, %v; want %d", missing, got, err, want)
				}
			}
		})
	}
}
