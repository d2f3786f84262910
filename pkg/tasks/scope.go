package tasks

import (
	"sync/atomic"

	"github.com/go-logr/logr"
)

// scope is what the runs of a task, their commands and the output of those have in common.
type scope struct {
	means    *means
	hold     Hold
	log      logr.Logger
	declared atomic.Pointer[Task] // as it is now
	stuck    atomic.Bool          // an alarm was raised
}

func newScope(m *means, t *Task, hold Hold) *scope {
	s := &scope{means: m, hold: hold, log: m.log(hold)}
	s.declared.Store(t)
	return s
}

// task is the task as it is declared now.
func (s *scope) task() Task { return *s.declared.Load() }

// declare notes the task as it is declared now.
func (s *scope) declare(t *Task) { s.declared.Store(t) }
