package kafka

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
)

// absentError says of partitions why they do not answer now. That may pass: one has no leader, say. What others have
// answered is returned beside it.
type absentError map[int32]error

// note takes in what is wrong with a partition; nil: nothing is.
func (e absentError) note(partition int32, err error) {
	if err != nil {
		e[partition] = err
	}
}

// of is what is wrong with an answer; nil: all partitions have answered. It is e unless something will not pass by
// itself.
func (e absentError) of(ctx context.Context, what string) error {
	if len(e) == 0 {
		return nil
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("ask for %s: %w", what, err)
	}
	for _, p := range e.partitions() {
		if err := e[p]; !mayPass(err) {
			return fmt.Errorf("ask for %s: partition %d: %w", what, p, err)
		}
	}
	return e
}

func (e absentError) partitions() []int32 { return slices.Sorted(maps.Keys(e)) }

func (e absentError) Error() string {
	of := map[string][]string{} // partitions by what is wrong
	for _, p := range e.partitions() {
		why := e[p].Error()
		of[why] = append(of[why], strconv.Itoa(int(p)))
	}
	var all []string
	for _, why := range slices.Sorted(maps.Keys(of)) {
		all = append(all, "partition "+strings.Join(of[why], ", ")+": "+why)
	}
	return strings.Join(all, "; ")
}

func (e absentError) Unwrap() []error { return slices.Collect(maps.Values(e)) }

// told is e for people; nil where no partition is absent.
func (e absentError) told() error {
	if len(e) == 0 {
		return nil
	}
	return fmt.Errorf("%w: messages there wait, other partitions go on", e)
}

// leaderless are those of the partitions that have no leader.
func (t topic) leaderless(partitions []int32) absentError {
	none := absentError{}
	for _, p := range partitions {
		if int(p) < len(t.leaders) && t.leaders[p] < 0 {
			none[p] = kerr.LeaderNotAvailable
		}
	}
	return none
}
