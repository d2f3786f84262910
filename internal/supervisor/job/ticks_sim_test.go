package job

import (
	"flag"
	"maps"
	"slices"
	"strconv"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/shardctl/shardctl/internal/record"
	"github.com/shardctl/shardctl/internal/taskrun"
	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/tasks"
	"github.com/shardctl/shardctl/pkg/tasks/schedule"
	_ "github.com/shardctl/shardctl/test/seeds" // the same cases for everybody
)

// tickWorld is one task with ticks on replicas that share a lock, in minutes of virtual time. What becomes of each tick
// is compared with a model that knows everything and learns everything in time.
type tickWorld struct {
	*rapid.T

	// What is real: the lock's status, what operators ask for, the declared task, and the owner.
	now    time.Time
	status elect.TaskStatus
	asked  taskrun.Asked
	task   *tasks.Task
	job    *Job          // nil: the key has no owner
	runs   bool          // its run goes on
	away   bool          // the store does not answer who advances the lock
	writes bool          // a start waits for that
	ahead  time.Duration // of the owner's clock

	// What is expected.
	known
	stored   known          // as the lock has it
	seen     time.Time      // ticks up to here have come to the owner
	due      []time.Time    // to be fired as soon as no run goes, in this order; the last one counts under replace
	trigger  int64          // asked for, and not fired
	asking   map[int64]bool // what was asked for and not fired, with those that others followed
	removed  bool           // from the task list
	paused   bool
	until    time.Time // when the pause ends by itself; zero: it does not
	fired    map[int64]bool
	repeated int64 // a tick that an operator has restarted
}

var tickSchedules = []string{"*/10 * * * *", "*/7 * * * *", "25 * * * *"}

// known is what is known of the ticks.
type known struct {
	settled time.Time // ticks up to here are dealt with, or do not count
	last    time.Time // the tick fired last
}

func drawTicking(t *rapid.T) *tasks.Task {
	task := &tasks.Task{Identity: tasks.Identity{Group: "g", Name: "n"}, Runner: work{}, Timing: tasks.Timing{
		Schedule:      rapid.SampledFrom(tickSchedules).Draw(t, "schedule"),
		Overlap:       rapid.SampledFrom([]tasks.Overlap{tasks.OverlapSkip, tasks.OverlapReplace}).Draw(t, "overlap"),
		CatchUp:       rapid.SampledFrom([]tasks.CatchUp{tasks.CatchUpLast, tasks.CatchUpNone}).Draw(t, "catchUp"),
		CatchUpWindow: time.Duration(rapid.SampledFrom([]int{5, 60, 600}).Draw(t, "window")) * time.Minute,
		Retry: tasks.Retry{
			Attempts: rapid.IntRange(1, 2).Draw(t, "attempts"),
			Backoff:  tasks.Backoff{Initial: time.Minute, Max: 3 * time.Minute},
		},
	}}
	return complete(*task)
}

func (w *tickWorld) clock() Moment {
	return Moment{Wall: w.wall(), Steady: w.now}
}

// wall is the time by the owner's clock.
func (w *tickWorld) wall() time.Time { return w.now.Add(w.ahead) }

func (w *tickWorld) schedule() schedule.Schedule {
	s, err := scheduleOf(w.task)
	if err != nil {
		w.Fatal(err)
	}
	return s
}

// expect has a tick fired once no run goes.
func (w *tickWorld) expect(at time.Time) { w.due = append(w.due, at) }

// takeUp is what is expected of a replica that gets the key.
func (w *tickWorld) takeUp() {
	now := w.wall()
	if was := w.status.Schedule; was != "" && was != digest(&w.task.Timing) {
		w.reschedule()
	}
	if w.status.Undeclared {
		w.settled = later(w.settled, now)
	}
	w.due, w.seen = nil, now
	switch early := w.last.Sub(now); {
	case early > record.MostAhead:
		w.reschedule()
	case early > 0:
		w.seen, w.settled = w.last, w.last
	case w.settled.After(now):
		w.settled = now
	}
	at := schedule.NewestIn(w.schedule(), w.settled, now, max(0, now.Sub(w.settled)))
	switch {
	case at.IsZero():
	case w.task.CatchUp == tasks.CatchUpLast && now.Sub(at) <= w.task.CatchUpWindow:
		w.expect(at)
	default:
		w.settled = at
	}
}

// apply does what the job wants, as the loop does.
func (w *tickWorld) apply(fx Effects) {
	if w.job.Reports(fx) {
		w.status, w.stored = w.job.Status(), w.known
	}
	for _, run := range fx.Ended {
		if run.Result == taskrun.ResultSkipped && w.fired[run.Start.ScheduledAt.UnixMilli()] {
			w.Fatalf("%s is skipped after it was fired", w.minute(run.Start.ScheduledAt))
		}
	}
	if fx.Over != nil {
		w.job, w.runs, w.writes = nil, false, false
		return
	}
	if fx.Run {
		if w.runs {
			w.Fatal("two runs")
		}
		w.writes = true
		if !w.away {
			w.answer(true)
		}
	}
}

// answer says whether the lock was advanced for a start, which runs then.
func (w *tickWorld) answer(advanced bool) {
	w.writes = false
	if !advanced {
		w.apply(w.job.Ended(w.job.asked, Attempt{Start: w.job.try.start, Refused: elect.ErrUnavailable}, w.clock()))
		return
	}
	w.runs, w.status = true, w.job.Status()
	w.begins(w.job.try.start)
	w.apply(w.job.Advanced(8))
}

// begins is a start of a run: a tick, a trigger, or one of them again.
func (w *tickWorld) begins(s tasks.Start) {
	if s.Attempt > 1 {
		return
	}
	ms := s.ScheduledAt.UnixMilli()
	w.Logf("%s begins at %s", w.minute(s.ScheduledAt), w.minute(w.now))
	switch {
	case ms == w.repeated:
		w.repeated = 0
	case w.asking[ms]:
		delete(w.asking, ms)
		if ms == w.trigger {
			w.trigger = 0
		}
	case w.fired[ms]:
		w.Fatalf("%s is fired twice", w.minute(s.ScheduledAt))
	case !slices.ContainsFunc(w.due, s.ScheduledAt.Equal):
		w.Fatalf("%s is fired at %s, where %v are due", w.minute(s.ScheduledAt), w.minute(w.now), w.due)
	default:
		w.due = slices.DeleteFunc(w.due, func(at time.Time) bool { return !at.After(s.ScheduledAt) })
		w.settled, w.last, w.repeated = later(w.settled, s.ScheduledAt), s.ScheduledAt, 0
		w.fired[ms] = s.ScheduledAt.Sub(w.now) <= record.MostAhead // else it may be fired again
	}
}

// reschedule has another schedule count from now on. What was fired early of one before, and is declared again, is
// forgotten.
func (w *tickWorld) reschedule() {
	w.settled, w.seen, w.last = w.wall(), w.wall(), time.Time{}
	maps.DeleteFunc(w.fired, func(ms int64, _ bool) bool { return ms > w.now.UnixMilli() })
}

func (w *tickWorld) minute(t time.Time) string { return t.Format("15:04:05") }

// pass lets minutes go by.
func (w *tickWorld) pass(n int) {
	for range n {
		w.now = w.now.Add(time.Minute)
		if w.job == nil {
			continue
		}
		if at := schedule.NewestIn(w.schedule(), w.seen, w.wall(), time.Minute); !at.IsZero() {
			w.seen = at
			if busy := w.job.phase != idle; !busy || w.task.Overlap == tasks.OverlapReplace {
				w.expect(at)
			} else {
				w.settled = at
			}
		}
		w.apply(w.job.Wake(w.clock()))
		w.look()
	}
}

// look: what is due is not left while nothing runs.
func (w *tickWorld) look() {
	if w.job != nil && w.job.phase == idle && (len(w.due) > 0 || w.trigger > 0) {
		w.Fatalf("%v and trigger %d are due at %s, and nothing runs", w.due, w.trigger, w.minute(w.now))
	}
}

func (w *tickWorld) begin() {
	w.takeUp()
	w.repeated = 0
	w.job = New(w.task, w.status)
	w.apply(w.job.Begin(w.asked, 7, w.clock()))
	w.look()
}

// ends is the end of a run.
func (w *tickWorld) ends(err error, cut bool) {
	w.runs = false
	r := Attempt{Start: w.job.try.start, Took: time.Minute, Ending: tasks.Ending{ByItself: !cut, Cut: cut, Err: err}}
	r.Start.Token = 8
	if cut {
		r.Cause = w.job.exit.stop
	}
	w.apply(w.job.Ended(w.job.asked, r, w.clock()))
	w.look()
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// cut ends what was asked to stop: a run, or the wait for an answer.
func (w *tickWorld) cut() {
	switch {
	case w.runs:
		w.ends(nil, true)
	case w.writes:
		w.answer(false)
	}
}

// stop is an orderly end.
func (w *tickWorld) stop() {
	w.due = nil
	w.apply(w.job.Stopped(elect.ErrReleased, w.clock()))
	w.cut()
	if w.job != nil {
		w.Fatalf("it goes on after a stop: %+v", w.job)
	}
}

// edit declares another task. The ticks of another schedule count from now on.
func (w *tickWorld) edit(t *tasks.Task) {
	before := w.task
	w.task = t
	if w.job == nil {
		return
	}
	if t.Schedule != before.Schedule {
		w.reschedule()
	}
	again := t.NeedsRestart(*before)
	if again {
		w.due = nil
	}
	w.apply(w.job.Changed(t, w.clock()))
	if again && w.job.exit.next != nil {
		w.cut()
	}
	w.look()
}

// tickCases is how many times as many histories are drawn as rapid draws of other things.
const tickCases = 20

// drawMore has rapid draw more cases in this test. Each of its checks draws from the same seed: one more would draw the
// same cases again.
func drawMore(t *testing.T, times int) {
	t.Helper()
	checks := flag.Lookup("rapid.checks").Value
	before := checks.String()
	n, err := strconv.Atoi(before)
	if err == nil {
		err = checks.Set(strconv.Itoa(n * times))
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = checks.Set(before) })
}

// Whatever happens, each tick is fired once at most, none of a pause and none from before its schedule, and each one
// that counts, or that catchUp covers.
func TestTicksAgainstAModel(t *testing.T) {
	drawMore(t, tickCases)
	rapid.Check(t, func(t *rapid.T) {
		w := &tickWorld{
			T: t, now: time.Date(2026, 1, 1, 0, 0, 30, 0, time.UTC), task: drawTicking(t), fired: map[int64]bool{},
			asking: map[int64]bool{},
		}
		w.settled, w.stored.settled = w.now, w.now
		w.begin()
		t.Repeat(w.steps())
	})
}

func (w *tickWorld) steps() map[string]func(*rapid.T) {
	// when has a step for what is so at times.
	when := func(is func() bool, do func(*rapid.T)) func(*rapid.T) {
		return func(t *rapid.T) {
			if !is() {
				t.Skip()
			}
			do(t)
		}
	}
	owned := func() bool { return w.job != nil }
	return map[string]func(*rapid.T){
		"":            func(*rapid.T) { w.look() },
		"time passes": func(t *rapid.T) { w.pass(rapid.IntRange(1, 25).Draw(t, "minutes")) },
		"a run ends": when(func() bool { return w.runs }, func(t *rapid.T) {
			w.ends(rapid.SampledFrom([]error{nil, errWork}).Draw(t, "with"), false)
		}),
		"the replica stops": when(owned, func(*rapid.T) { w.stop() }),
		"the replica dies": when(owned, func(*rapid.T) {
			w.job, w.runs, w.writes, w.due, w.known = nil, false, false, nil, w.stored
		}),
		"it is removed": when(func() bool { return !w.removed }, func(*rapid.T) {
			if w.removed = true; w.job != nil {
				w.stop()
				w.status.Undeclared = true // as package elect notes
			}
		}),
		"it is declared again": when(func() bool { return w.removed }, func(*rapid.T) { w.removed = false }),
		"a replica takes it up": when(func() bool { return w.job == nil && !w.paused && !w.removed }, func(t *rapid.T) {
			w.ahead = time.Duration(rapid.SampledFrom([]int{0, 0, 0, 75, 26 * 60}).Draw(t, "ahead")) * time.Minute
			w.begin()
		}),
		"the store answers, or not": func(*rapid.T) { w.away = !w.away },
		"an answer": when(func() bool { return w.writes }, func(t *rapid.T) {
			w.answer(rapid.Bool().Draw(t, "advanced"))
		}),
		"pause": when(func() bool { return !w.paused }, func(*rapid.T) {
			if w.paused = true; w.job != nil {
				w.stop()
			}
		}),
		"pause for a while": when(func() bool { return !w.paused }, func(t *rapid.T) {
			w.until = w.now.Add(time.Duration(rapid.IntRange(1, 120).Draw(t, "for")) * time.Minute)
			if w.paused = true; w.job != nil {
				w.stop()
			}
		}),
		"resume": when(func() bool { return w.paused }, func(*rapid.T) {
			w.resume(w.now, record.Override{At: w.now.UnixMilli()})
		}),
		// A replica writes so, at once or once one is up again.
		"the pause is over": when(func() bool { return w.paused && !w.until.IsZero() && !w.now.Before(w.until) },
			func(*rapid.T) {
				w.resume(w.until, record.Override{At: w.now.UnixMilli(), Until: w.until.UnixMilli()})
			}),
		"edit":    when(func() bool { return w.ahead == 0 }, func(t *rapid.T) { w.edit(drawTicking(t)) }),
		"trigger": func(*rapid.T) { w.pull() },
		"restart": when(func() bool {
			return owned() && (w.job.phase == active || w.job.phase == pausing) && w.job.ticks.pending.IsZero()
		}, func(*rapid.T) { w.restart() }),
	}
}

// resume ends a pause: ticks up to then do not count.
func (w *tickWorld) resume(at time.Time, written record.Override) {
	w.paused, w.until, w.asked.Resumed = false, time.Time{}, written.Resumed()
	w.settled, w.stored.settled = later(w.settled, at), later(w.stored.settled, at)
}

// pull asks for one tick more.
func (w *tickWorld) pull() {
	w.asked.Trigger = max(w.now.UnixMilli(), w.asked.Trigger+1)
	w.trigger = w.asked.Trigger
	if w.asking[w.trigger] = true; w.job != nil {
		w.apply(w.job.Ask(w.asked, w.job.try.start.Token, w.clock()))
	}
}

// restart asks for the run that goes on to start again.
func (w *tickWorld) restart() {
	if w.runs || !w.writes && w.job.try.refused == 0 || w.job.try.start.Attempt > 1 { // else it has not begun yet
		w.repeated = w.job.try.start.ScheduledAt.UnixMilli()
	}
	a := w.asked
	a.Restart = w.job.try.start.Token + 1
	w.apply(w.job.Ask(a, w.job.try.start.Token, w.clock()))
	w.cut()
}
