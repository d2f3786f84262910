//go:build linux

package kube

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/shardctl/shardctl/test/e2e/history"
)

// History reads what ran so far.
func (r *Release) History() (*history.History, error) { return history.Load(r.Records) }

// CheckRunning says whether `tasks` tasks run now, all on ready pods, as many of which there are as the release wants.
func (r *Release) CheckRunning(ctx context.Context, tasks int) error {
	pods, err := r.ReadyPods(ctx)
	if err != nil {
		return err
	}
	if len(pods) != r.Replicas {
		return fmt.Errorf("%d pods are ready, want %d", len(pods), r.Replicas)
	}
	return r.checkOn(pods, tasks)
}

// checkOn says whether `tasks` tasks run now, all on these pods.
func (r *Release) checkOn(pods []Pod, tasks int) error {
	h, err := r.History()
	if err != nil {
		return err
	}
	counts := history.ByInstance(h.Owners())
	sum := 0
	for _, p := range pods {
		sum += counts[p.Metadata.Name]
		delete(counts, p.Metadata.Name)
	}
	if len(counts) > 0 {
		return fmt.Errorf("tasks run on pods that are not ready: %v", counts)
	}
	if sum != tasks {
		return fmt.Errorf("%d tasks run, want %d", sum, tasks)
	}
	return nil
}

// CheckSpread is CheckRunning, and says whether they are spread evenly, in the eyes of every replica, too.
func (r *Release) CheckSpread(ctx context.Context, tasks int) error {
	if err := r.CheckRunning(ctx, tasks); err != nil {
		return err
	}
	h, err := r.History()
	if err != nil {
		return err
	}
	counts := history.ByInstance(h.Owners())
	if len(counts) != r.Replicas {
		return fmt.Errorf("only %d of %d pods run tasks: %v", len(counts), r.Replicas, counts)
	}
	if err := CheckEven(counts); err != nil {
		return err
	}
	pods, err := r.ReadyPods(ctx)
	if err != nil {
		return err
	}
	for _, p := range pods {
		status, err := r.Replica(p).Status(ctx)
		if err != nil {
			return err
		}
		if got := status.Group(Group).Running; got != tasks {
			return fmt.Errorf("%s says %d of %d tasks run", p.Metadata.Name, got, tasks)
		}
	}
	return nil
}

// KeysOf are the keys that pods run now, in order.
func (r *Release) KeysOf(pods ...Pod) ([]string, error) {
	h, err := r.History()
	if err != nil {
		return nil, err
	}
	var keys []string
	for key, run := range h.Owners() {
		if slices.ContainsFunc(pods, func(p Pod) bool { return p.Metadata.Name == run.Instance }) {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys, nil
}

// CheckTaken says whether at least `want` of these keys have been started after since and run now.
func (r *Release) CheckTaken(keys []string, since history.Instant, want int) error {
	h, err := r.History()
	if err != nil {
		return err
	}
	owners, taken := h.Owners(), 0
	for _, key := range keys {
		if run, ok := owners[key]; ok && run.Start >= since {
			taken++
		}
	}
	if taken < want {
		return fmt.Errorf("%d of %d tasks have been taken over, want %d", taken, len(keys), want)
	}
	return nil
}

// CheckEven says whether no count is larger than another by more than one.
func CheckEven(counts map[string]int) error {
	values := slices.Sorted(maps.Values(counts))
	if len(values) > 0 && values[len(values)-1]-values[0] > 1 {
		return fmt.Errorf("uneven: %v", counts)
	}
	return nil
}

// FirstStarts are when each of these keys was started for the first time after since, sorted.
func FirstStarts(h *history.History, keys []string, since history.Instant) []history.Instant {
	var starts []history.Instant
	for _, key := range keys {
		for _, run := range h.Runs(key) {
			if run.Start >= since {
				starts = append(starts, run.Start)
				break
			}
		}
	}
	slices.Sort(starts)
	return starts
}
