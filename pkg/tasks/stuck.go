package tasks

import (
	"errors"
	"sync"
	"time"
)

var errStuck = errors.New("task does not end: its key stays here until it does")

// stuckAlarm tells when a task that was told to stop has not ended in time.
type stuckAlarm struct {
	r     *running
	since time.Time
	timer *time.Timer

	mu           sync.Mutex
	raised, over bool
}

// watchStuck begins when a task is told to stop; its end method is called when nothing of it is left.
func (r *running) watchStuck() *stuckAlarm {
	a := &stuckAlarm{r: r, since: time.Now()}
	a.timer = time.AfterFunc(r.task().Stop.Timeout+r.s.cfg.StuckAfter, a.raise)
	return a
}

func (a *stuckAlarm) raise() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.over || !a.r.stuck.CompareAndSwap(false, true) {
		return // what is left of a command may be watched beside the run that it is of
	}
	a.raised = true
	a.r.log.Error(errStuck, "task is stuck", "duration", time.Since(a.since))
	if a.r.s.cfg.OnStuck != nil {
		a.r.s.cfg.OnStuck(a.r.task(), a.since)
	}
}

func (a *stuckAlarm) end() {
	a.timer.Stop()
	a.mu.Lock()
	defer a.mu.Unlock()
	a.over = true
	if !a.raised {
		return
	}
	a.r.stuck.Store(false)
	a.r.log.Info("task ended after all", "duration", time.Since(a.since))
	if a.r.s.cfg.OnUnstuck != nil {
		a.r.s.cfg.OnUnstuck(a.r.task())
	}
}
