//go:build linux

package harness

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/shardctl/shardctl/test/e2e/history"
)

// CheckSpread says whether `running` tasks run, spread evenly over the live replicas. They must do so in the eyes of
// every live replica and by the records of the tasks themselves.
func (c *Cluster) CheckSpread(ctx context.Context, running int) error {
	live := c.Live()
	if len(live) == 0 {
		return errors.New("no replica lives")
	}
	for _, r := range live {
		status, err := r.Client.Status(ctx)
		if err != nil {
			return fmt.Errorf("status of %s: %w", r.Name, err)
		}
		if got := status.Group(Group).Running; got != running {
			return fmt.Errorf("%s says %d of %d tasks run%s", r.Name, got, running, waiting(ctx, r))
		}
	}
	tasks, err := live[0].Client.Tasks(ctx)
	if err != nil {
		return fmt.Errorf("tasks: %w", err)
	}
	reported := map[string]string{}
	for _, t := range tasks {
		if t.State == "running" {
			reported[t.Key] = t.Instance
		}
	}
	if err := even(count(maps.Values(reported)), live); err != nil {
		return fmt.Errorf("the API says: %w", err)
	}
	h, err := c.History()
	if err != nil {
		return err
	}
	return checkRecords(h, reported)
}

// waiting lists the tasks that a replica does not call running, for a failure's text.
func waiting(ctx context.Context, r *Replica) string {
	tasks, err := r.Client.Tasks(ctx)
	if err != nil {
		return fmt.Sprintf(", and its tasks cannot be read: %v", err)
	}
	const most = 5
	text, left := "", 0
	for _, t := range tasks {
		switch {
		case t.State == "running":
		case left >= most:
			left++
		default:
			left++
			text += fmt.Sprintf("; %s is %s on %q", t.Key, t.State, t.Instance)
		}
	}
	if left > most {
		text += fmt.Sprintf("; and %d more", left-most)
	}
	return text
}

// checkRecords says whether exactly the keys that are reported to run do, where they are reported to.
func checkRecords(h *history.History, reported map[string]string) error {
	owners := h.Owners()
	for key, instance := range reported {
		run, runs := owners[key]
		switch {
		case !runs:
			return fmt.Errorf("%s is reported to run on %s and records nothing", key, instance)
		case run.Instance != instance:
			return fmt.Errorf("%s is reported to run on %s and records on %s", key, instance, run.Instance)
		}
	}
	for key, run := range owners {
		if _, ok := reported[key]; !ok {
			return fmt.Errorf("%s records on %s and is not reported to run", key, run.Instance)
		}
	}
	return nil
}

// CheckTaken says whether each of these keys has been started after since and runs now.
func (c *Cluster) CheckTaken(keys []string, since history.Instant) error {
	h, err := c.History()
	if err != nil {
		return err
	}
	owners := h.Owners()
	missing := 0
	for _, key := range keys {
		if run, ok := owners[key]; !ok || run.Start < since {
			missing++
		}
	}
	if missing > 0 {
		return fmt.Errorf("%d of %d tasks have not been taken over", missing, len(keys))
	}
	return nil
}

// KeysOf are the keys that an instance runs now, by the records, in order.
func (c *Cluster) KeysOf(instance string) ([]string, error) {
	h, err := c.History()
	if err != nil {
		return nil, err
	}
	var keys []string
	for key, run := range h.Owners() {
		if run.Instance == instance {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys, nil
}

// even says whether the counts are of exactly the live replicas and differ by one at most.
func even(counts map[string]int, live []*Replica) error {
	names := map[string]bool{}
	for _, r := range live {
		names[r.Name] = true
	}
	for name := range counts {
		if !names[name] {
			return fmt.Errorf("%d tasks run on %s, which does not live", counts[name], name)
		}
	}
	if len(counts) != len(names) {
		return fmt.Errorf("only %d of %d replicas run tasks: %v", len(counts), len(names), counts)
	}
	values := slices.Sorted(maps.Values(counts))
	if values[len(values)-1]-values[0] > 1 {
		return fmt.Errorf("uneven: %v", counts)
	}
	return nil
}

func count(values func(func(string) bool)) map[string]int {
	counts := map[string]int{}
	for v := range values {
		counts[v]++
	}
	return counts
}
