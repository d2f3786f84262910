package tasks

import (
	"errors"
	"sync"
	"time"
)

var (
	errStuck      = errors.New("task does not end: its key stays here until it does")
	errStartStuck = errors.New("command does not start: the file system of its program or directory does not answer")
)

// slowStart is how long a start keeps one of the slots for simultaneous starts. One that takes longer hangs, on a
// dead file server as a rule, and must not hold up the others.
const slowStart = time.Second

// watchStop begins when a task is asked to stop; end is called when nothing of it is left.
func (s *scope) watchStop() (end func()) {
	cfg := s.means.cfg
	return raiseAfter(s.task().Stop.Timeout+cfg.StuckAfter, func(since time.Time) bool {
		if !s.stuck.CompareAndSwap(false, true) {
			return false // what is left of a command is watched as well as the run that it is of
		}
		s.log.Error(errStuck, "The task is stuck", "duration", time.Since(since))
		if cfg.OnStuck != nil {
			cfg.OnStuck(s.task(), since)
		}
		return true
	}, func(since time.Time) {
		s.stuck.Store(false)
		s.log.Info("The task has ended after all", "duration", time.Since(since))
		if cfg.OnUnstuck != nil {
			cfg.OnUnstuck(s.task())
		}
	})
}

// watchStart begins when a command is about to start. leave frees its place; end is called with the starter's answer.
func (s *scope) watchStart(leave func()) (end func()) {
	cfg := s.means.cfg
	slow := time.AfterFunc(slowStart, leave)
	answered := raiseAfter(cfg.StuckAfter, func(since time.Time) bool {
		s.log.Error(errStartStuck, "The task does not start", "duration", time.Since(since))
		if cfg.OnStartStuck != nil {
			cfg.OnStartStuck(s.task(), since)
		}
		return true
	}, func(since time.Time) {
		s.log.Info("The start is over after all", "duration", time.Since(since))
		if cfg.OnStartUnstuck != nil {
			cfg.OnStartUnstuck(s.task())
		}
	})
	return func() {
		slow.Stop()
		answered()
	}
}

// raiseAfter calls raise when end has not been called for so long, and calm at the end if raise returned true. They get
// the time at which the watch began.
func raiseAfter(after time.Duration, raise func(since time.Time) bool, calm func(since time.Time)) (end func()) {
	var mu sync.Mutex
	raised, over, since := false, false, time.Now()
	timer := time.AfterFunc(after, func() {
		mu.Lock()
		defer mu.Unlock()
		raised = !over && raise(since)
	})
	return func() {
		timer.Stop()
		mu.Lock()
		defer mu.Unlock()
		if over = true; raised {
			calm(since)
		}
	}
}
