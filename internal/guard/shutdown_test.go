package guard

import (
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/shardctl/shardctl/internal/guard/wire"
)

// drawn is effects as text.
func drawn(effects []effect) string {
	var out []string
	for _, e := range effects {
		switch e := e.(type) {
		case send:
			switch b := e.body.(type) {
			case wire.Order:
				out = append(out, "order "+b.String())
			case wire.Exited:
				out = append(out, fmt.Sprintf("exited %d: %d, signal %d", b.ID, b.Code, b.Signal))
			case wire.Gone:
				out = append(out, fmt.Sprintf("gone %d", b.ID))
			case wire.Alarm:
				out = append(out, fmt.Sprintf("alarm %s %v past X %v", b.Key, b.PIDs, b.PastX))
			default:
				out = append(out, fmt.Sprintf("%+v", e.body))
			}
		case signalGroup:
			out = append(out, fmt.Sprintf("%s to group %d", unix.SignalName(e.signal), e.pid))
		case killCgroup:
			out = append(out, "kill "+e.name)
		case removeCgroup:
			out = append(out, "remove "+e.name)
		case signalProcs:
			out = append(out, fmt.Sprintf("%s to %v", unix.SignalName(e.signal), pids(e.procs)))
		case keepSessions:
			for _, s := range e.sessions {
				out = append(out, fmt.Sprintf("keep %s %v", s.uuid, s.keys))
			}
		case probe:
			out = append(out, fmt.Sprintf("probe %d %v past X %v", e.id, e.pids, e.pastX))
		case killCommands:
			out = append(out, fmt.Sprintf("kill commands, worker dead %v", e.workerDead))
		case killWorker:
			out = append(out, "kill worker")
		case note:
			out = append(out, "note")
		}
	}
	return strings.Join(out, "; ")
}

func TestShutdown(t *testing.T) {
	const killAll, orphans = "kill commands, worker dead false", "kill commands, worker dead true"
	type step struct {
		at   time.Duration
		what string
		want string
	}
	for name, c := range map[string]struct {
		steps []step
		code  int
	}{
		"in order": {[]step{
			{0, "TERM", "order drain; note"},
			{1 * second, "bye", ""},
			{1 * second, "end of the socket", orphans},
			{2 * second, "exit 0", "note"},
			{2 * second, "over", "over"},
		}, 0},
		"a reload is no drain": {[]step{{0, "HUP", "order reload"}, {60 * second, "time", ""}}, 1},
		"too slow": {[]step{
			{0, "TERM", "order drain; note"},
			{25 * second, "time", killAll + "; note"},
			{26 * second, "time", ""},
			{28 * second, "time", "kill worker"},
			{28 * second, "killed", orphans + "; note"},
			{28 * second, "over", ""}, // what it said is not read to the end yet
			{28 * second, "end of the socket", ""},
			{28 * second, "over", "over"},
		}, 137},
		"a second signal": {[]step{
			{0, "TERM", "order drain; note"},
			{1 * second, "INT", "order hardstop; " + killAll + "; note"},
			{1400 * time.Millisecond, "time", ""},
			{1500 * time.Millisecond, "time", "kill worker"},
			{2 * second, "TERM", ""},
			{2 * second, "killed", orphans + "; note"},
			{2 * second, "end of the socket", ""},
			{2 * second, "over", "over"},
		}, 130},
		"the worker dies": {[]step{
			{0, "exit 3", orphans + "; note"},
			{0, "end of the socket", ""},
			{0, "something left", ""},
			{20 * second, "something left", "over"}, // the lease is over: others have waited it out
		}, 3},
		"the worker crashes": {[]step{
			{0, "end of the socket", orphans + "; kill worker"},
			{0, "exit 2", "note"},
			{0, "over", "over"},
		}, ExitCrashed},
		"the worker crashes while it exits": {[]step{
			{0, "bye", ""},
			{0, "exit 2", orphans + "; note"},
			{0, "end of the socket", ""},
			{0, "over", "over"},
		}, ExitCrashed},
		"the socket breaks": {[]step{
			{0, "end of the socket", orphans + "; kill worker"},
			{0, "killed", "note"},
			{0, "over", "over"},
		}, 137},
		"a goodbye and no exit": {[]step{
			{0, "bye", ""},
			{0, "end of the socket", orphans},
			{5 * second, "time", "kill worker"},
		}, 1},
	} {
		s := newShutdown()
		for _, step := range c.steps {
			var effects []effect
			got, now := "", at(step.at)
			switch what := step.what; {
			case what == "TERM":
				effects = s.signalled(syscall.SIGTERM, now)
			case what == "INT":
				effects = s.signalled(syscall.SIGINT, now)
			case what == "HUP":
				effects = s.signalled(syscall.SIGHUP, now)
			case what == "bye":
				s.worker.leaving = true
			case what == "end of the socket":
				effects = s.socketEnded(now)
			case what == "time":
				effects = s.advance(now)
			case what == "killed":
				effects = s.workerExited(killed, now)
			case strings.HasPrefix(what, "exit "):
				var code int
				_, _ = fmt.Sscanf(what, "exit %d", &code)
				effects = s.workerExited(exit(code), now)
			case s.over(now, what == "over", false):
				got = "over"
			}
			if got += drawn(effects); got != step.want {
				t.Errorf("%s: %s at %v: %q, want %q", name, step.what, step.at, got, step.want)
			}
		}
		if got := s.exitCode(false); got != c.code {
			t.Errorf("%s: status %d, want %d", name, got, c.code)
		}
	}
}

// The end of the worker is told once, when its status is known, whatever shows it first.
func TestTheWorkersEndIsNamed(t *testing.T) {
	for _, socketFirst := range []bool{true, false} {
		for _, tt := range []struct {
			status unix.WaitStatus
			bye    bool
			want   string
			level  level
			code   [2]int // in the background, in the foreground
		}{
			{killed, false, "The worker has died, all tasks are killed [signal SIGKILL]", levelInfo, [2]int{137, ExitLeaseLost}},
			{
				unix.WaitStatus(unix.SIGPIPE), false, "The worker has died, all tasks are killed [signal SIGPIPE]",
				levelInfo,
				[2]int{141, ExitLeaseLost},
			},
			{exit(1), false, "The worker has died, all tasks are killed [status 1]", levelInfo, [2]int{1, 1}},
			{
				exit(goCrash), false, "The worker has died, all tasks are killed [status 2]", levelInfo,
				[2]int{ExitCrashed, ExitLeaseLost},
			},
			{exit(goCrash), true, "The worker has ended gracefully [status 2]", levelDebug, [2]int{ExitCrashed, 2}},
			{exit(0), true, "The worker has ended gracefully [status 0]", levelDebug, [2]int{}},
		} {
			s := newShutdown()
			s.worker.leaving = tt.bye
			var effects []effect
			if socketFirst {
				effects = s.socketEnded(at(0))
			}
			effects = append(effects, s.workerExited(tt.status, at(0))...)
			if !socketFirst {
				effects = append(effects, s.socketEnded(at(0))...)
			}
			var said []string
			for _, e := range effects {
				if n, ok := e.(note); ok && n.level == tt.level {
					said = append(said, fmt.Sprint(n.text, " ", n.values))
				}
			}
			if code := [2]int{s.exitCode(false), s.exitCode(true)}; code != tt.code ||
				!slices.Equal(said, []string{tt.want}) {
				t.Errorf("%v, socket first %v: %q, codes %v; want %+v", tt.status, socketFirst, said, code, tt)
			}
		}
	}
}

func TestNothingStartsAtTheEnd(t *testing.T) {
	for what, end := range map[string]func(*shutdown){
		"the worker is dead": func(s *shutdown) { s.socketEnded(at(0)) },
		"a hard stop": func(s *shutdown) {
			s.signalled(syscall.SIGTERM, at(0))
			s.signalled(syscall.SIGTERM, at(0))
		},
		"too slow": func(s *shutdown) { s.signalled(syscall.SIGTERM, at(0)); s.advance(at(25 * second)) },
	} {
		s := newShutdown()
		if s.mayStart() != nil {
			t.Error("nothing starts from the beginning")
		}
		if end(s); s.mayStart() == nil {
			t.Errorf("%s, and it starts commands", what)
		}
	}
	s := newShutdown()
	s.signalled(syscall.SIGTERM, at(0))
	if s.mayStart() != nil {
		t.Error("a tick may not run during a drain")
	}
}

func TestShutdownWakesForItsLimits(t *testing.T) {
	s := newShutdown()
	if _, ok := s.next(at(0)); ok {
		t.Error("something is due from the beginning")
	}
	s.signalled(syscall.SIGTERM, at(0))
	limits := map[time.Duration]time.Duration{
		0: 25 * second, 24 * second: second, 25 * second: 3 * second, 30 * second: 0,
	}
	for now, want := range limits {
		if left, ok := s.next(at(now)); left != want || ok != (want > 0) {
			t.Errorf("at %v: %v, %v; want %v", now, left, ok, want)
		}
	}
}

// The guard that had to end a worker whose lease was over says so by its exit status. One that was too late does not.
func TestExitStatusOfALostLease(t *testing.T) {
	now := at(0)
	for want, begin := range map[int]func(s *shutdown){
		ExitLeaseLost: func(*shutdown) {},
		137:           func(s *shutdown) { s.workerExited(killed, now) },
	} {
		s := newShutdown()
		begin(s)
		s.endForObstruction()
		s.workerExited(killed, now)
		if got := s.exitCode(false); got != want {
			t.Errorf("exit status %d, want %d", got, want)
		}
	}
}

// A worker that keeps others from the store is ended once its lease is over, and not for a moment's work.
func TestObstruction(t *testing.T) {
	const lease = 20 * second
	var o obstruction
	now := time.Duration(0)
	look := func(over, obstructs bool) (asked, ended bool) {
		now += lease / 20
		if !o.due(over, lease, at(now)) {
			return false, false
		}
		return true, o.seen(obstructs)
	}
	for i, c := range []struct{ over, obstructs, asked, ended bool }{
		{false, true, false, false}, // while its lease goes on
		{true, true, true, false},
		{true, true, true, false},
		{true, false, true, false}, // it was a moment's work
		{true, true, true, false},
		{true, true, true, false},
		{false, true, false, false}, // renewed
		{true, true, true, false},
		{true, true, true, false},
		{true, true, true, true},
		{true, true, true, false}, // it is ended once
	} {
		if asked, ended := look(c.over, c.obstructs); asked != c.asked || ended != c.ended {
			t.Errorf("step %d: asked %v, ended %v", i, asked, ended)
		}
	}
	if o.due(true, lease, at(now+lease/20-1)) {
		t.Error("asked too soon")
	}
}
