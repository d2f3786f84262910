package rig

import (
	"context"
	"testing"

	"github.com/shardctl/shardctl/pkg/tasks"
	"github.com/shardctl/shardctl/pkg/tasks/decode"
	"github.com/shardctl/shardctl/pkg/tasks/internal/fakehold"
)

// Env is what a run of the task g/n is given by a supervisor, and its lease. That run goes on until the test ends.
func Env(t *testing.T, change ...func(*tasks.Config)) (tasks.Env, *fakehold.Hold) {
	t.Helper()
	envs := make(chan tasks.Env, 1)
	task := tasks.Task{Group: "g", Name: "n", Runner: idle(func(env tasks.Env) { envs <- env })}
	hold := Hold(task)
	_, _ = Run(t, New(t, change...), task, hold)
	return Wait(t, envs, "the run"), hold
}

// idle is a runner that does nothing but to hand on what it is given.
type idle func(env tasks.Env)

func (idle) Kind() string                           { return "idle" }
func (idle) Validate(tasks.Use) []decode.FieldError { return nil }
func (idle) Print(tasks.Use) any                    { return "" }
func (idle) NeedsRestart(tasks.Runner) bool         { return false }

func (r idle) Run(ctx context.Context, env tasks.Env) tasks.Ending {
	env.Status.Running()
	r(env)
	<-ctx.Done()
	return tasks.Ending{Cut: true}
}
