package subscribe

import (
	"errors"
	"testing"
	"time"

	"github.com/shardctl/shardctl/internal/subscribe/internal/flow"
)

// takeAll waits until so much work has ended, and gives it.
func takeAll(t *testing.T, d *deliverers, n int) (all []finished) {
	t.Helper()
	patience := time.After(20 * time.Second)
	for len(all) < n {
		select {
		case <-d.bell:
			all = append(all, d.take()...)
		case <-patience:
			t.Fatalf("%d of %d works have ended", len(all), n)
		}
	}
	return all
}

func TestDeliverersAreUsedAgain(t *testing.T) {
	under, release := make(chan struct{}), make(chan struct{})
	failed := errors.New("failed")
	d := newDeliverers(func(flow.Work[Message]) []error {
		under <- struct{}{}
		<-release
		return []error{failed}
	})
	defer d.end()
	work := func(n int) {
		for range n {
			d.begin(flow.Work[Message]{})
		}
		for range n {
			<-under // all at once
		}
		d.rest() // changes nothing while they are busy
		for range n {
			release <- struct{}{}
		}
		for _, done := range takeAll(t, d, n) {
			if len(done.errs) != 1 || !errors.Is(done.errs[0], failed) {
				t.Errorf("a delivery ended with %v", done.errs)
			}
		}
	}
	for _, step := range []struct{ works, running int }{{3, 3}, {2, 3}, {5, 5}} {
		if work(step.works); d.running != step.running || d.busy != 0 {
			t.Errorf("after %d works %d goroutines, %d busy, want %d", step.works, d.running, d.busy, step.running)
		}
	}
	d.rest()
	if work(1); d.running != 1 {
		t.Errorf("after a rest %d goroutines for one work", d.running)
	}
}
