// Package taskrun is what one run of a task is given, and what comes of it.
//
// A [Runner] does the work of a task once, with what its [Env] holds: the start and its fencing token, the hold on the
// key, and ways to start commands and to send requests. The supervisor calls it, restarts it and stops it. Package exec
// runs commands, httptask calls HTTP endpoints, callback calls Go functions.
package taskrun

import (
	"context"

	"github.com/shardctl/shardctl/pkg/tasks"
)

// Runner is a [tasks.Runner] that can be run.
//
// It knows nothing of schedules, restarts, stop time-outs and deadlines: it runs once when Run is called, and ends when
// its context does.
type Runner interface {
	tasks.Runner
	// Run does the work once and returns when nothing of it is left, soon after ctx ends. Between ticks it goes on
	// for as long as ctx does.
	Run(ctx context.Context, env Env) tasks.Ending
}

// Leaver is a Runner with something to do before its task, one without ticks, leaves the replica or begins again
// with other fields. Leave is called after the last Run, and the key goes on when it returns. What the remote lease
// promised bounds it.
type Leaver interface {
	Runner
	Leave(ctx context.Context, env Env)
}
