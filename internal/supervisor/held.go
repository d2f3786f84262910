package supervisor

import (
	"context"
	"sync"

	"github.com/shardctl/shardctl/internal/supervisor/job"
	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/tasks"
)

// held is a task whose key is held here. While the task waits it is all that there is of it.
type held struct {
	key    elect.Key
	hold   Hold
	ended  func(error)
	given  *tasks.Task // what Run was called with; nil: the task as it is declared
	cancel runCancel

	// The rest belongs to the loop.
	job     *job.Job
	run     *taskRuns // what it runs with; nil while it waits for a tick
	wakeups wakeups[*held]
}

func newHeld(hold Hold, given *tasks.Task, ended func(error)) *held {
	h := &held{key: hold.Key(), hold: hold, ended: ended, given: given}
	h.wakeups = wakeupsOf(h)
	return h
}

// runCancel ends the run that goes on, at once: that must not wait for the loop.
type runCancel struct {
	mu      sync.Mutex
	stopped error // nothing may be run any more
	cancel  context.CancelCauseFunc
}

// context is that of a run. Call done when the run has ended.
func (r *runCancel) context() (ctx context.Context, done func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	ctx, cancel := context.WithCancelCause(context.Background())
	if r.cancel = cancel; r.stopped != nil {
		cancel(r.stopped)
	}
	return ctx, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.cancel = nil
		cancel(nil)
	}
}

// cut ends the run that goes on.
func (r *runCancel) cut(cause error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.cancel != nil {
		r.cancel(cause)
	}
}

// stop ends the run that goes on, and lets none begin after it.
func (r *runCancel) stop(cause error) {
	r.mu.Lock()
	if r.stopped == nil {
		r.stopped = cause
	}
	r.mu.Unlock()
	r.cut(cause)
}
