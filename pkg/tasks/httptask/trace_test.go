package httptask

import (
	"net/http"
	"testing"
	"time"

	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/tasks"
	"github.com/shardctl/shardctl/pkg/tasks/internal/fakehold"
)

// A request carries the trace of its run, whatever headers the task has, and none without tracing.
func TestRequestsCarryTheTrace(t *testing.T) {
	const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	for _, test := range []struct {
		trace         tasks.TraceContext
		parent, state string
	}{
		{tasks.TraceContext{Parent: parent, State: "v=1"}, parent, "v=1"},
		{tasks.TraceContext{Parent: parent}, parent, ""},
		{tasks.TraceContext{}, "own", "own"},
	} {
		env := tasks.Env{Trace: test.trace, Lease: fakehold.New(elect.NewKey("g", "n"))}
		header := http.Header{}
		header.Set("traceparent", "own")
		header.Set("tracestate", "own")
		describe(header, env, message{event: eventTick, start: tasks.Start{ScheduledAt: time.Now()}})
		if got := header.Get("traceparent"); got != test.parent {
			t.Errorf("%+v: traceparent %q, want %q", test.trace, got, test.parent)
		}
		if got := header.Get("tracestate"); got != test.state {
			t.Errorf("%+v: tracestate %q, want %q", test.trace, got, test.state)
		}
	}
}
