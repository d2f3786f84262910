package job

import (
	"fmt"
	"hash/fnv"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/shardctl/shardctl/internal/record"
	"github.com/shardctl/shardctl/internal/taskrun"
	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/tasks"
)

// status is what the lock should say of a task.
type status struct{ elect.TaskStatus }

// begin clears what an earlier owner noted of its runs, and returns the outcome that it noted.
func (s *status) begin() (outcome *elect.RunOutcome) {
	outcome = s.Outcome
	s.Restarts, s.LastError, s.Settled, s.Outcome = 0, "", false, nil
	return outcome
}

// set changes the status of t to a state. Since is by the local clock; for display only.
func (s *status) set(t *tasks.Task, state string, now Moment, change ...func(*elect.TaskStatus)) {
	if s.State != state {
		s.State, s.Since = state, now.Wall.UnixMilli()
	}
	if state != record.StateRunning {
		s.TroubleSince = 0
	}
	if !t.Ticks() {
		s.NextRunAt = 0
	}
	for _, c := range change {
		c(&s.TaskStatus)
	}
	s.Settled = settled(t, s.State)
}

// conclude notes the outcome of a task that has ended for good, and returns it as an error. The release of the key
// carries the outcome, so that it is kept also when the key is released at this moment. If the lease is lost before,
// the work starts again elsewhere.
func (s *status) conclude(t *tasks.Task, r Attempt, now Moment) (done error) {
	end := r.Ending
	done = taskrun.ErrDone
	succeeded := end.Err == nil && (end.Final || t.Restart != tasks.RestartAlways)
	if !succeeded {
		if end.Err == nil {
			end.Err = fmt.Errorf("it ended by itself more often than maxRestarts (%d) allows", t.MaxRestarts)
		}
		done = fmt.Errorf("%w: it failed: %w", taskrun.ErrDone, end.Err)
	}
	s.LastError = display(end.Err)
	s.Outcome = &elect.RunOutcome{
		Succeeded: succeeded, Final: end.Final, ExitCode: end.Code, Error: display(end.Err), Token: r.Start.Token,
		At: now.Wall.UnixMilli(),
	}
	s.showOutcome(t, now)
	return done
}

// showOutcome makes the state that of the outcome, which the runner's leave may have changed.
func (s *status) showOutcome(t *tasks.Task, now Moment) {
	state := record.StateFailed
	if s.Outcome.Succeeded {
		state = record.StateDone
	}
	s.set(t, state, now)
}

// hasEnded returns, as an error, the outcome in the lock if it still counts. One under another restart policy than the
// task has now may not, and one that an operator wants to be forgotten does not.
func hasEnded(t *tasks.Task, outcome *elect.RunOutcome, asked taskrun.Asked) error {
	switch {
	case outcome == nil, asked.Rerun > 0 && outcome.Token <= asked.Rerun,
		t.Restart == tasks.RestartAlways && !outcome.Final && (outcome.Succeeded || t.MaxRestarts == 0):
		return nil
	case outcome.Succeeded:
		return taskrun.ErrDone
	default:
		return fmt.Errorf("%w: it failed: %s", taskrun.ErrDone, outcome.Error)
	}
}

// fired is what the status tells was fired last.
type fired struct{ tick, trigger int64 }

// fire notes a tick, which the lock gets before it runs, and returns what was fired before. The zero time is no tick.
// trigger is the tick that an operator asked for last, in Unix ms.
func (s *status) fire(tick time.Time, trigger int64) (before fired) {
	before = fired{s.LastTick, s.LastTrigger}
	switch ms := tick.UnixMilli(); {
	case tick.IsZero():
	case ms == trigger:
		s.LastTrigger = ms
	default:
		s.LastTick = ms
	}
	return before
}

// restore takes a fire back, where the lock did not get it.
func (s *status) restore(before fired) { s.LastTick, s.LastTrigger = before.tick, before.trigger }

// triggered reports whether a tick more was asked for that has not been fired.
func (s *status) triggered(asked taskrun.Asked) bool { return asked.Trigger > s.LastTrigger }

// follow notes of which schedule the ticks are from now on, and reports whether it was another one. None of it was
// missed before.
func (s *status) follow(t *tasks.Task, now Moment) (other bool) {
	was, is := s.Schedule, digest(&t.Timing)
	if !t.Ticks() && was == "" {
		return false
	}
	if other = was != "" && was != is; other {
		s.LastTick, s.TicksTo = 0, now.Wall.UnixMilli()
	}
	s.Schedule = is
	return other
}

// digest identifies a schedule, and that there is none.
func digest(t *tasks.Timing) string {
	hash := fnv.New32a()
	_, _ = fmt.Fprintf(hash, "%s\x00%s\x00%d", t.Schedule, t.TimeZone, t.Every) // a hash's Write never fails
	return strconv.FormatUint(uint64(hash.Sum32()), 36)
}

// advance notes that ticks up to a moment are dealt with.
func (s *status) advance(at time.Time) { s.TicksTo = max(s.TicksTo, at.UnixMilli()) }

// settled reports whether work in that state should not be moved for balance: it could not be picked up where it
// stopped.
func settled(t *tasks.Task, state string) bool {
	switch state {
	case record.StateStarting, record.StateRunning, record.StateStopping:
		return t.Ticks() || t.Restart != tasks.RestartAlways
	case record.StateBackoff:
		return t.Ticks() // a tick between two tries
	default:
		return false
	}
}

// lastError puts err into the status, cut to what a lock may hold: it is for display, the log has all of it.
func lastError(err error) func(*elect.TaskStatus) {
	return func(s *elect.TaskStatus) { s.LastError = display(err) }
}

// Trouble notes what is wrong with a run that goes on, and since when.
func Trouble(err error, at time.Time) func(*elect.TaskStatus) {
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
