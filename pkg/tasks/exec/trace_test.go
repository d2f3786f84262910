package exec

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/shardctl/shardctl/pkg/tasks"
	"github.com/shardctl/shardctl/pkg/tasks/internal/rig"
)

// fakeTracer gives every run the same trace, and notes what it hears of it.
type fakeTracer struct {
	trace tasks.TraceContext
	mu    sync.Mutex
	heard []string
}

func (f *fakeTracer) note(text string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.heard = append(f.heard, text)
}

func (f *fakeTracer) Begin(ctx context.Context, run tasks.TracedRun) (context.Context, tasks.Span) {
	f.note("begin " + string(run.Key()) + " " + run.Kind + " " + run.Session)
	return ctx, fakeSpan{f}
}

type fakeSpan struct{ *fakeTracer }

func (s fakeSpan) Trace() tasks.TraceContext { return s.trace }
func (s fakeSpan) Running()                  { s.note("running") }

func (s fakeSpan) End(result tasks.Result, ending tasks.Ending) {
	text := "end " + string(result)
	if ending.Err != nil {
		text += ": " + ending.Err.Error()
	}
	s.note(text)
}

const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

// A command gets the trace of its run, and never one half of it from elsewhere.
func TestCommandGetsItsTrace(t *testing.T) {
	outer := []string{"PATH=/usr/bin:/bin", "TRACEPARENT=outer", "TRACESTATE=outer"}
	for name, test := range map[string]struct {
		tracer *fakeTracer
		want   []string
	}{
		"with a state": {
			&fakeTracer{trace: tasks.TraceContext{Parent: parent, State: "v=1"}},
			[]string{"TRACEPARENT=" + parent, "TRACESTATE=v=1"},
		},
		"without a state": {&fakeTracer{trace: tasks.TraceContext{Parent: parent}}, []string{"TRACEPARENT=" + parent}},
		"without tracing": {nil, []string{"TRACEPARENT=outer", "TRACESTATE=outer"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := rig.New(t, func(c *tasks.Config) {
				c.Environ = func() []string { return outer }
				if test.tracer != nil {
					c.Tracer = test.tracer
				}
			})
			task := tasks.Task{Group: "g", Name: "n", Restart: tasks.RestartNever, Runner: Runner{
				Command: []string{"sh", "-c", "env | grep ^TRACE | sort; exit 3"},
			}}
			_, done := rig.Run(t, s, task, rig.Hold(task))
			if err := rig.Wait(t, done, "the task"); !errors.Is(err, tasks.ErrDone) {
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
		if got := (tasks.TraceContext{Parent: parent}).ID(); got != want {
			t.Errorf("%q: the trace is %q, want %q", parent, got, want)
		}
	}
}
