package httptask

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardctl/shardctl/internal/endpoint"
	"github.com/shardctl/shardctl/internal/record"
	"github.com/shardctl/shardctl/internal/taskrun"
	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/tasks"
	"github.com/shardctl/shardctl/test/fakehold"
	"github.com/shardctl/shardctl/test/taskrig"
)

// lateEndpoint hears of a renewal only a second after it was sent, also when it has been given up by then.
type lateEndpoint struct {
	*fakeEndpoint
	broken bool // the connection: the sender has no answer, at once
}

func (l lateEndpoint) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.Header.Get("Shardctl-Event") != eventRenew {
		return l.fakeEndpoint.RoundTrip(request)
	}
	heard := make(chan *http.Response, 1)
	go func() {
		time.Sleep(time.Second)
		response, _ := l.fakeEndpoint.RoundTrip(request) //nolint:bodyclose // who hears it closes it
		heard <- response
	}()
	if l.broken {
		return nil, io.ErrUnexpectedEOF
	}
	select {
	case response := <-heard:
		return response, nil
	case <-request.Context().Done():
		return nil, request.Context().Err()
	}
}

// Whatever was sent has arrived before the endpoint is to stop: it would go on after it had stopped.
func TestStopIsTheLastThatArrives(t *testing.T) {
	for _, broken := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			f := &fakeEndpoint{}
			s := supervisorOver(t, f, lateEndpoint{f, broken})
			stop, done := taskrig.Run(t, s, httpTask(), taskrig.Hold(httpTask()))
			time.Sleep(6700 * time.Millisecond) // the first renewal is under way
			stop(elect.ErrReleased)
			if err := <-done; !errors.Is(err, elect.ErrReleased) {
				t.Errorf("Run returned %v", err)
			}
			time.Sleep(time.Minute)
			events := f.events()
			if n := len(events); n < 3 || !strings.HasPrefix(events[n-1], eventStop) {
				t.Errorf("with a broken connection %t: %v, want a stop last", broken, events)
			}
		})
	}
}

func TestStartThatFailedMayHaveBeenHeard(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		held time.Duration
	}{
		"answer lost": {io.ErrUnexpectedEOF, 18 * time.Second},
		"no listener": {&net.OpError{Op: "dial", Err: errors.New("refused")}, 100 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := &fakeEndpoint{answer: func(string, time.Duration) (int, error) { return 0, c.err }}
				s := supervised(t, f)
				task := httpTask()
				task.Backoff = tasks.Backoff{Initial: time.Hour, Max: time.Hour}
				stop, done := taskrig.Run(t, s, task, taskrig.Hold(task))
				time.Sleep(100 * time.Millisecond)
				stop(elect.ErrReleased)
				taskrig.Ended(t, done, "the end")
				if held := time.Since(f.began); held != c.held {
					t.Errorf("held for %s, want %s", held, c.held)
				}
			})
		})
	}
}

func TestNothingIsSentWithoutTimeLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeEndpoint{}
		s := supervised(t, f)
		hold := taskrig.Hold(httpTask())
		hold.Freeze(2 * time.Second)
		_, _ = taskrig.Run(t, s, httpTask(), hold)
		synctest.Wait()
		if len(f.events()) != 0 || len(f.leases) != 0 {
			t.Errorf("events %v, leases %v", f.events(), f.leases)
		}
	})
}

// What frees the key does not know of the remote lease, and would give the key to another in its midst.
func TestNothingIsSentWhenTheRemoteLeaseCannotBeNoted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeEndpoint{deaf: errors.New("the guard is gone")}
		s := supervised(t, f)
		hold := taskrig.Hold(httpTask())
		stop, done := taskrig.Run(t, s, httpTask(), hold)
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if st := hold.Status(); st.State != record.StateBackoff || !strings.Contains(st.LastError, "the guard is gone") {
			t.Errorf("status %+v", st)
		}
		stop(elect.ErrReleased)
		if err := <-done; !errors.Is(err, elect.ErrReleased) {
			t.Errorf("Run returned %v", err)
		}
		if len(f.events()) > 0 {
			t.Errorf("the endpoint heard: %v", f.events())
		}
	})
}

// What it takes to note a remote lease is not the endpoint's: its seconds count from when the request is sent.
func TestNotingTheRemoteLeaseTakesTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeEndpoint{slow: 3 * time.Second} // the request may take 2 s, the hold's deadline is 18 s away
		s := supervised(t, f)
		hold := taskrig.Hold(httpTask())
		stop, done := taskrig.Run(t, s, httpTask(), hold)
		time.Sleep(8 * time.Second)
		synctest.Wait()
		stop(elect.ErrReleased)
		if err := <-done; !errors.Is(err, elect.ErrReleased) {
			t.Errorf("Run returned %v", err)
		}
		if f.missing {
			t.Error("the endpoint was promised more than was noted")
		}
	})
}

// sender gives what a single request needs.
type sender struct {
	taskrun.Clients
	environ []string
}

func (q *sender) env(task tasks.Task, start tasks.Start) taskrun.Env {
	return taskrun.Env{
		Identity: task.Identity, Start: start, Lease: taskrig.Hold(task), Status: q,
		Host: taskrun.Host{
			Instance: "a", T: 20 * time.Second, HTTP: q, Environ: func() []string { return q.environ },
		},
	}
}

func (*sender) AcquireSlot(context.Context) (done func(), err error) { return func() {}, nil }
func (*sender) Running()                                             {}
func (*sender) Trouble(error)                                        {}
func (*sender) Lag(elect.Lag)                                        {}

// A configuration that was read again may name another lease than the one that the replica runs with. A time-out that
// would fit that one must not keep the task from starting under this.
func TestTimeoutGoesByTheRunningLease(t *testing.T) {
	for timeout, want := range map[time.Duration]string{
		0:                "13", // of the 18 s that the hold has, less a quarter of the running lease of 20 s
		25 * time.Second: "13", // fits a lease of 80 s
		6 * time.Second:  "12",
	} {
		synctest.Test(t, func(t *testing.T) {
			f := &fakeEndpoint{}
			s := supervised(t, f)
			task := httpTask()
			task.Runner = Runner{Endpoint: endpoint.Endpoint{URL: "http://far.example/hook"}, Timeout: timeout}
			stop, done := taskrig.Run(t, s, task, taskrig.Hold(task))
			synctest.Wait()
			stop(elect.ErrReleased)
			taskrig.Ended(t, done, "the end")
			if len(f.headers) == 0 || f.headers[0].Get("Shardctl-Valid-For") != want {
				t.Errorf("timeout %s: requests %v, want a start that is valid for %s s", timeout, f.headers, want)
			}
		})
	}
}

// A request carries the trace of its run, whatever headers the task has, and none without tracing.
func TestRequestsCarryTheTrace(t *testing.T) {
	const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	for _, test := range []struct {
		trace         taskrun.TraceContext
		parent, state string
	}{
		{taskrun.TraceContext{Parent: parent, State: "v=1"}, parent, "v=1"},
		{taskrun.TraceContext{Parent: parent}, parent, ""},
		{taskrun.TraceContext{}, "own", "own"},
	} {
		env := taskrun.Env{Trace: test.trace, Lease: fakehold.New(elect.NewKey("g", "n"))}
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
