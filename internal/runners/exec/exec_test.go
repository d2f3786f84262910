package exec

import (
	"context"
	"errors"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/shardctl/shardctl/internal/record"
	"github.com/shardctl/shardctl/internal/supervisor"
	"github.com/shardctl/shardctl/internal/taskrun"
	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/tasks"
	"github.com/shardctl/shardctl/test/suites"
	"github.com/shardctl/shardctl/test/taskrig"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestCommandGetsItsEnvironment(t *testing.T) {
	suites.Need(t, suites.Processes, "real commands")
	s := taskrig.New(t, func(c *supervisor.Config) {
		c.Environ = func() []string {
			return []string{
				"PATH=/usr/bin:/bin", "BASE=base", "SHARDCTL_STORE_URI=secret", "SHARDCTL_ADMIN_TOKEN=secret",
				"SHARDCTL_X=x", "NOTIFY_SOCKET=/run/other", "SHARDCTL_TASK=outer", "PGPASSWORD=secret", "GIVEN=given",
			}
		}
		c.Withheld = []string{"PGPASSWORD", "GIVEN"} // what opens the store, unless the task's own env gives it
	})
	dir := t.TempDir()
	task := tasks.Task{Identity: tasks.Identity{Group: "g", Name: "n", Index: "007"}, Runner: Runner{
		Command: []string{
			"sh", "-c", "env; pwd; echo arg:$1; echo DONE", "sh",
			"$(SHARDCTL_TASK)-$(OWN)-$(BASE)-$(NO:-default)-$$(x)",
		},
		Env: map[string]string{"OWN": "own $(BASE) $(SHARDCTL_INDEX)", "SHARDCTL_KEY": "mine", "GIVEN": "$(GIVEN)"},
		Dir: dir,
	}, Restart: tasks.RestartNever}
	_, done := taskrig.Run(t, s, task, taskrig.Hold(task))
	if err := taskrig.Wait(t, done, "the task"); !errors.Is(err, taskrun.ErrDone) {
		t.Fatal(err)
	}
	var lines []string
	for _, line := range s.Tail("g/n", 1000) {
		lines = append(lines, line.Text)
	}
	for _, want := range []string{
		"BASE=base", "GIVEN=given", "OWN=own base 007", "SHARDCTL_TASK=n", "SHARDCTL_GROUP=g", "SHARDCTL_KEY=g/n",
		"SHARDCTL_FENCING_TOKEN=7", "SHARDCTL_INSTANCE=a",
		"SHARDCTL_SESSION=session-1", "SHARDCTL_INDEX=007", "SHARDCTL_X=x", dir, "arg:n-own base 007-base-default-$(x)",
		"DONE",
	} {
		if !slices.Contains(lines, want) {
			t.Errorf("no line %q in %q", want, lines)
		}
	}
	for _, line := range lines {
		if strings.Contains(line, "secret") || strings.HasPrefix(line, "NOTIFY_SOCKET") ||
			strings.HasPrefix(line, "SHARDCTL_SCHEDULED_AT") {
			t.Errorf("the command got %q", line)
		}
	}
}

func TestCommandThatCannotStart(t *testing.T) {
	for want, runner := range map[string]Runner{
		"exec.command[1]: $(NOT_SET) is not set": {Command: []string{"true", "$(NOT_SET)"}},
		"exec.env.A: $(NOT_SET) is not set": {
			Command: []string{"true"}, Env: map[string]string{"A": "$(NOT_SET)"},
		},
		`program "no-such-program" is not in PATH`:            {Command: []string{"no-such-program"}},
		"start command: directory /no/such/dir: no such file": {Command: []string{"true"}, Dir: "/no/such/dir"},
		"it is empty": {Command: []string{"$(EMPTY:-)"}},
	} {
		task := tasks.Task{
			Identity: tasks.Identity{Group: "g", Name: "n"}, Runner: runner, Restart: tasks.RestartNever,
			Backoff: tasks.Backoff{Initial: time.Millisecond},
		}
		s := taskrig.New(t)
		hold := taskrig.Hold(task)
		tried := make(chan struct{})
		hold.Fail = func(n int) error {
			if n == 2 {
				close(tried)
			}
			return nil
		}
		stop, done := taskrig.Run(t, s, task, hold)
		taskrig.Wait(t, tried, "a second try: what has not started has not ended")
		stop(elect.ErrReleased)
		if err := taskrig.Wait(t, done, "the end"); !errors.Is(err, elect.ErrReleased) {
			t.Errorf("Run returned %v", err)
		}
		if got := hold.Status().LastError; !strings.Contains(got, want) || !strings.HasPrefix(got, "not started") {
			t.Errorf("error %q, want %q", got, want)
		}
	}
}

func TestReadiness(t *testing.T) {
	suites.Need(t, suites.Processes, "real commands")
	t.Run("delay", func(t *testing.T) {
		lines := &taskrig.Lines{}
		s := taskrig.New(t, func(c *supervisor.Config) { c.Output = lines })
		task := tasks.Task{Identity: tasks.Identity{Group: "g", Name: "n"}, Runner: Runner{
			Command: []string{"sh", "-c", "echo up; sleep 1000"}, Ready: Ready{Delay: time.Hour},
		}}
		hold := taskrig.Hold(task)
		_, _ = taskrig.Run(t, s, task, hold)
		lines.With(t, "up")
		if st := hold.Status().State; st != record.StateStarting {
			t.Errorf("state %s within the delay", st)
		}
	})
	t.Run("notify", func(t *testing.T) {
		ready, err := newReadiness(t.Context(), Ready{Notify: true})
		if err != nil {
			t.Fatal(err)
		}
		defer ready.close()
		done, stop := ready.started()
		defer stop()
		_, path, _ := strings.Cut(ready.environ()[0], "=")
		conn, err := net.Dial("unixgram", path)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = conn.Close() }()
		if _, err := conn.Write([]byte("STATUS=READY=1\nMAINPID=1")); err != nil {
			t.Fatal(err)
		}
		select {
		case <-done:
			t.Fatal("ready before READY=1")
		default:
		}
		if _, err := conn.Write([]byte("STATUS=up\nREADY=1\n")); err != nil {
			t.Fatal(err)
		}
		taskrig.Wait(t, done, "readiness")
	})
}

// fakeTracer gives every run the same trace, and notes what it hears of it.
type fakeTracer struct {
	supervisor.Tracer // nil: nothing is delivered

	trace taskrun.TraceContext
	mu    sync.Mutex
	heard []string
}

func (f *fakeTracer) note(text string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.heard = append(f.heard, text)
}

func (f *fakeTracer) Begin(ctx context.Context, run supervisor.TracedRun) (context.Context, supervisor.Span) {
	f.note("begin " + string(run.Key()) + " " + run.Kind + " " + run.Session)
	return ctx, fakeSpan{f}
}

type fakeSpan struct{ *fakeTracer }

func (s fakeSpan) Trace() taskrun.TraceContext { return s.trace }
func (s fakeSpan) Running()                    { s.note("running") }

func (s fakeSpan) End(result taskrun.Result, ending tasks.Ending) {
	text := "end " + string(result)
	if ending.Err != nil {
		text += ": " + ending.Err.Error()
	}
	s.note(text)
}

const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

// A command gets the trace of its run, and never one half of it from elsewhere.
func TestCommandGetsItsTrace(t *testing.T) {
	suites.Need(t, suites.Processes, "real commands")
	outer := []string{"PATH=/usr/bin:/bin", "TRACEPARENT=outer", "TRACESTATE=outer"}
	for name, test := range map[string]struct {
		tracer *fakeTracer
		want   []string
	}{
		"with a state": {
			&fakeTracer{trace: taskrun.TraceContext{Parent: parent, State: "v=1"}},
			[]string{"TRACEPARENT=" + parent, "TRACESTATE=v=1"},
		},
		"without a state": {&fakeTracer{trace: taskrun.TraceContext{Parent: parent}}, []string{"TRACEPARENT=" + parent}},
		"without tracing": {nil, []string{"TRACEPARENT=outer", "TRACESTATE=outer"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := taskrig.New(t, func(c *supervisor.Config) {
				c.Environ = func() []string { return outer }
				if test.tracer != nil {
					c.Tracer = test.tracer
				}
			})
			task := tasks.Task{Identity: tasks.Identity{Group: "g", Name: "n"}, Restart: tasks.RestartNever, Runner: Runner{
				Command: []string{"sh", "-c", "env | grep ^TRACE | sort; exit 3"},
			}}
			_, done := taskrig.Run(t, s, task, taskrig.Hold(task))
			if err := taskrig.Wait(t, done, "the task"); !errors.Is(err, taskrun.ErrDone) {
				t.Fatal(err)
			}
			var lines []string
			for _, line := range s.Tail("g/n", 1000) {
				lines = append(lines, line.Text)
			}
			if !slices.Equal(lines, test.want) {
				t.Errorf("the command got %q, want %q", lines, test.want)
			}
			if test.tracer == nil {
				return
			}
			want := "begin g/n exec session-1, running, end failed: exit status 3"
			if got := strings.Join(test.tracer.heard, ", "); got != want {
				t.Errorf("the tracer heard %s, want %s", got, want)
			}
		})
	}
}

func TestTraceID(t *testing.T) {
	for parent, want := range map[string]string{"": "", parent: "0af7651916cd43dd8448eb211c80319c", "odd": ""} {
		if got := (taskrun.TraceContext{Parent: parent}).ID(); got != want {
			t.Errorf("%q: the trace is %q, want %q", parent, got, want)
		}
	}
}
