package tasks

import (
	"errors"
	"sync"
	"time"
)

var errStartStuck = errors.New("command does not start: the file system of its program or directory does not answer")

// slowStart is how long a start keeps one of the places for simultaneous starts. One that takes longer hangs, on a
// dead file server as a rule, and must not hold up the others.
const slowStart = time.Second

// startAlarm watches one start of a command.
type startAlarm struct {
	r     *running
	since time.Time

	mu           sync.Mutex
	raised, over bool
}

// watchStart begins when a command is about to start. leave frees its place; end is called with the starter's answer.
func (r *running) watchStart(leave func()) (end func()) {
	a := &startAlarm{r: r, since: time.Now()}
	slow, stuck := time.AfterFunc(slowStart, leave), time.AfterFunc(r.s.cfg.StuckAfter, a.raise)
	return func() {
		slow.Stop()
		stuck.Stop()
		a.end()
	}
}

func (a *startAlarm) raise() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.over {
		return
	}
	a.raised = true
	a.r.log.Error(errStartStuck, "task does not start", "duration", time.Since(a.since))
	if a.r.s.cfg.OnStartStuck != nil {
		a.r.s.cfg.OnStartStuck(a.r.task(), a.since)
	}
}

func (a *startAlarm) end() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.over = true
	if !a.raised {
		return
	}
	a.r.log.Info("the start is over after all", "duration", time.Since(a.since))
	if a.r.s.cfg.OnStartUnstuck != nil {
		a.r.s.cfg.OnStartUnstuck(a.r.task())
	}
}
