package tasks

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/go-logr/logr"

	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/internal/wallclock"
)

// The states of an owned task, as in [elect.TaskStatus.State].
const (
	StateWaiting  = "waiting" // between ticks
	StateStarting = "starting"
	StateRunning  = "running"
	StateStopping = "stopping"
	StateBackoff  = "backoff"
	StateDone     = "done"
	StateFailed   = "failed"
)

// running is one task under one lease.
type running struct {
	s      *Supervisor
	hold   Hold
	log    logr.Logger
	remote *RemoteLease

	declared atomic.Pointer[Task] // as it is now, see Supervisor.Update

	mu     sync.Mutex // a tick's run reports from a goroutine of its own
	status elect.TaskStatus
	noted  elect.TaskStatus // what the hold was given last
	stuck  bool             // an alarm was raised
}

func newRunning(s *Supervisor, t Task, hold Hold) *running {
	status := hold.Status()
	status.Restarts, status.LastError, status.Settled = 0, "", false // an earlier owner's
	status.Outcome = nil                                             // one that counts ends keep before it reports
	r := &running{
		s: s, hold: hold, status: status,
		log:    s.cfg.Logger.WithValues("key", string(hold.Key()), "session", hold.Session()),
		remote: NewRemoteLease(nil),
	}
	if s.cfg.Granted != nil {
		r.remote.note = func(until time.Time) error { return s.cfg.Granted(hold.Key(), hold.Session(), until) }
	}
	r.declared.Store(&t)
	return r
}

// task is the task as it is declared now.
func (r *running) task() Task { return *r.declared.Load() }

// report notes the state, and what change does to the status, in the lock some time; and nothing when nothing has changed, since a task
// that waits should cost no writes.
func (r *running) report(state string, change ...func(*elect.TaskStatus)) {
	status := r.set(state, change)
	r.mu.Lock()
	known := r.noted == status
	r.noted = status
	r.mu.Unlock()
	if !known {
		r.hold.Report(status)
	}
}

// advance writes the state under the lock and returns the token for the start that follows. It tries until it
// succeeds, the lease is lost or ctx ends.
func (r *running) advance(ctx context.Context, state string, change ...func(*elect.TaskStatus)) (int64, error) {
	status := r.set(state, change)
	for try := 0; ; try++ {
		token, err := r.hold.Advance(ctx, status)
		switch {
		case err == nil:
			r.mu.Lock()
			r.noted = status
			r.mu.Unlock()
			return token, nil
		case ctx.Err() != nil:
			return 0, context.Cause(ctx)
		case errors.Is(err, elect.ErrLeaseLost), errors.Is(err, elect.ErrNotHeld):
			return 0, err
		}
		r.log.V(1).Info("advancing the lock failed, trying again", "token", r.hold.Token())
		if !sleep(ctx, advanceBackoff.delay(try)) {
			return 0, context.Cause(ctx)
		}
	}
}

// advanceBackoff spaces tries of a write that failed: the elector has its own limits for each.
var advanceBackoff = Backoff{Initial: 100 * time.Millisecond, Max: 2 * time.Second}

// set changes the status and returns a copy. Since is by the local clock; for display only.
func (r *running) set(state string, change []func(*elect.TaskStatus)) elect.TaskStatus {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.status.State != state {
		r.status.State, r.status.Since = state, wallclock.Now().UnixMilli()
	}
	if !r.task().Ticks() {
		r.status.NextRunAt = 0
	}
	for _, c := range change {
		c(&r.status)
	}
	r.status.Settled = r.settled(state)
	return r.status
}

// settled says whether the work should not be moved for balance now: it could not be picked up where it stopped.
func (r *running) settled(state string) bool {
	switch state {
	case StateStarting, StateRunning, StateStopping:
		return r.task().Ticks() || r.task().Restart != RestartAlways
	case StateBackoff:
		return r.task().Ticks() // a tick between two tries
	default:
		return false
	}
}

// lastError puts err into the status, cut to what a lock may hold: it is for display, the log has all of it.
func lastError(err error) func(*elect.TaskStatus) {
	return func(s *elect.TaskStatus) { s.LastError = display(err) }
}

func nextRunAt(at time.Time) func(*elect.TaskStatus) {
	return func(s *elect.TaskStatus) {
		s.NextRunAt = 0
		if !at.IsZero() {
			s.NextRunAt = at.UnixMilli()
		}
	}
}

// display is an error as valid text of at most elect.MaxText bytes.
func display(err error) string {
	if err == nil {
		return ""
	}
	text := strings.ToValidUTF8(err.Error(), "\uFFFD")
	if len(text) <= elect.MaxText {
		return text
	}
	const more = "…"
	end := elect.MaxText - len(more)
	for !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + more
}

// sleep waits for d, and says whether it did before ctx ended.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
