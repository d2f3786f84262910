package tasks

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/shardctl/shardctl/pkg/elect"
)

// Ending is how a run ended.
type Ending struct {
	Err      error // nil: success
	Code     int   // exit status; of what has none, 0 or 1
	ByItself bool  // the work ran and ended by itself: the restart policy decides
	Cut      bool  // it had to stop
	// Final says that it must not start again before an operator asks for that, whatever the restart policy: it is done,
	// or with Err it has failed.
	Final bool
}

// NotStarted is the ending of work that could not be started: it is tried again, whatever the restart policy.
func NotStarted(ctx context.Context, err error) Ending {
	return Ending{Err: fmt.Errorf("not started: %w", err), Code: 1, Cut: ctx.Err() != nil}
}

// Ended is the ending of work that returned err by itself. What was cut off cannot be distinguished from what had just
// finished: after ctx has ended it counts as cut.
func Ended(ctx context.Context, err error) Ending {
	end := Ending{Err: err, ByItself: true, Cut: ctx.Err() != nil}
	if err != nil {
		end.Code = 1
	}
	return end
}

// attemptResult is what became of a start.
type attemptResult struct {
	start   Start
	refused error // the lock was not advanced: nothing ran
	ending  Ending
	cause   error // why the run was asked to stop; nil: it was not
	took    time.Duration
	trace   TraceContext
}

// result is how a run ended.
func (r attemptResult) result() Result {
	if r.start.ScheduledAt.IsZero() {
		return keepResult(r.ending)
	}
	result, _ := tickResult(r.ending, r.cause)
	return result
}

// ErrDone says that a task has ended for good, done or failed: its outcome is in the lock, and the key is to be
// suspended.
var ErrDone = errors.New("task has ended for good")

// Causes, beside those of package elect, of a run being asked to stop.
var (
	errTimeout   = errors.New("run took longer than its timeout")
	errReplaced  = errors.New("the next tick takes the place of this run")
	errRestarted = errors.New("an operator asked for a restart")
	errChanged   = errors.New("the task is declared with other fields now")
)

// returned decides what follows a run of a task without ticks. done says that it has ended for good.
func (j *job) returned(r attemptResult, now moment) (fx effects, done error) {
	run := runCount{
		result: keepResult(r.ending), took: r.took, err: r.ending.Err, start: r.start, code: r.ending.Code,
		trace: r.trace,
	}
	fx = effects{ended: []runCount{run}}
	if r.ending.Cut && (j.stop != nil || j.next != nil) {
		return fx, nil //nolint:nilerr // how the run ended is noted, and no error of this one
	}
	if j.refused = 0; r.took >= j.task.Backoff.ResetAfter {
		j.failures = 0
	}
	j.failures++
	switch {
	case j.task.endsForGood(r.ending, j.failures):
		done = j.finish(r, now)
		fx.note = true
		return fx, done
	case j.stop != nil || j.next != nil:
		return fx, nil //nolint:nilerr // as above
	}
	delay := j.task.Backoff.Delay(j.failures - 1)
	j.pause(delay, now)
	j.set(StateBackoff, now, lastError(r.ending.Err), nextRunAt(now.wall.Add(delay)))
	fx.note, fx.ended[0].again = true, true
	if isReported(j.failures) {
		fx.looping = CrashLoop{Failures: j.failures, Err: r.ending.Err, Next: now.wall.Add(delay)}
	}
	return fx, nil
}

// finish puts the outcome into the status. The release of the key carries it, so that it is kept also when the key is
// released at this moment. If the lease is lost before, the work starts again elsewhere.
func (j *job) finish(r attemptResult, now moment) (done error) {
	end := r.ending
	done = ErrDone
	succeeded := end.Err == nil && (end.Final || j.task.Restart != RestartAlways)
	if !succeeded {
		if end.Err == nil {
			end.Err = fmt.Errorf("it ended by itself more often than maxRestarts (%d) allows", j.task.MaxRestarts)
		}
		done = fmt.Errorf("%w: it failed: %w", ErrDone, end.Err)
	}
	j.status.LastError = display(end.Err)
	j.status.Outcome = &elect.RunOutcome{
		Succeeded: succeeded, Final: end.Final, ExitCode: end.Code, Error: display(end.Err), Token: r.start.Token,
		At: now.wall.UnixMilli(),
	}
	j.showOutcome(now)
	return done
}

// showOutcome makes the state that of the outcome, which the runner's leave may have changed.
func (j *job) showOutcome(now moment) effects {
	state := StateFailed
	if j.status.Outcome.Succeeded {
		state = StateDone
	}
	j.set(state, now)
	return effects{note: true}
}

func keepResult(end Ending) Result {
	switch {
	case end.Cut:
		return ResultStopped
	case end.Err != nil:
		return ResultFailed
	default:
		return ResultSucceeded
	}
}

// endsForGood says whether what has ended stays ended, at so many failures in a row.
func (t *Task) endsForGood(end Ending, failures int) bool {
	switch {
	case end.Final, end.ByItself && t.Restart == RestartNever,
		end.ByItself && t.Restart == RestartOnFailure && end.Err == nil:
		return true
	default:
		return t.MaxRestarts > 0 && failures > t.MaxRestarts
	}
}

// ended says, as an error, that the outcome in the lock still counts. One under another restart policy than the task
// has now may not, and one that an operator wants to be forgotten does not.
func (t *Task) ended(outcome *elect.RunOutcome, asked Asked) error {
	switch {
	case outcome == nil, asked.Rerun > 0 && outcome.Token <= asked.Rerun,
		t.Restart == RestartAlways && !outcome.Final && (outcome.Succeeded || t.MaxRestarts == 0):
		return nil
	case outcome.Succeeded:
		return ErrDone
	default:
		return fmt.Errorf("%w: it failed: %s", ErrDone, outcome.Error)
	}
}

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

// setState changes the status of t to a state. Since is by the local clock; for display only.
func setState(s *elect.TaskStatus, t *Task, state string, at time.Time, change ...func(*elect.TaskStatus)) {
	if s.State != state {
		s.State, s.Since = state, at.UnixMilli()
	}
	if state != StateRunning {
		s.TroubleSince = 0
	}
	if !t.Ticks() {
		s.NextRunAt = 0
	}
	for _, c := range change {
		c(s)
	}
	s.Settled = settled(t, s.State)
}

// settled says whether work in that state should not be moved for balance: it could not be picked up where it stopped.
func settled(t *Task, state string) bool {
	switch state {
	case StateStarting, StateRunning, StateStopping:
		return t.Ticks() || t.Restart != RestartAlways
	case StateBackoff:
		return t.Ticks() // a tick between two tries
	default:
		return false
	}
}

// lastError puts err into the status, cut to what a lock may hold: it is for display, the log has all of it.
func lastError(err error) func(*elect.TaskStatus) {
	return func(s *elect.TaskStatus) { s.LastError = display(err) }
}

// trouble notes what is wrong with a run that goes on, and since when.
func trouble(err error, at time.Time) func(*elect.TaskStatus) {
	return func(s *elect.TaskStatus) {
		switch s.LastError = display(err); {
		case err == nil:
			s.TroubleSince = 0
		case s.TroubleSince == 0:
			s.TroubleSince = at.UnixMilli()
		}
	}
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
