package tasks

import (
	"context"

	"github.com/go-logr/logr"
)

// running is one task under one lease.
type running struct {
	s    *Supervisor
	task Task
	hold Hold
	log  logr.Logger
}

func newRunning(s *Supervisor, t Task, hold Hold) *running {
	return &running{s: s, task: t, hold: hold, log: s.cfg.Logger.WithValues("key", string(hold.Key()), "session", hold.Session())}
}

func (r *running) tick(ctx context.Context) error { <-ctx.Done(); return context.Cause(ctx) }
func (r *running) keep(ctx context.Context) error { <-ctx.Done(); return context.Cause(ctx) }
