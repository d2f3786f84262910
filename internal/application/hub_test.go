package application

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardctl/shardctl/internal/protocol"
	"github.com/shardctl/shardctl/internal/replica"
	"github.com/shardctl/shardctl/pkg/api"
	"github.com/shardctl/shardctl/pkg/elect"
)

const (
	first  = "11111111-1111-4111-8111-111111111111"
	second = "22222222-2222-4222-8222-222222222222"
	hard   = 9 * time.Second
)

// newHub is one whose lease is always valid for nine seconds more.
func newHub(t *testing.T) *Hub {
	t.Helper()
	return newGuardedHub(t, nil)
}

func newGuardedHub(t *testing.T, guard replica.ApplicationGuard) *Hub {
	t.Helper()
	h := NewHub(Config{
		Clock:   elect.GoClock(),
		Session: func() (string, time.Duration) { return "session", hard },
		MaxWait: time.Second, Changed: func() {}, Guard: guard,
	})
	t.Cleanup(h.Close)
	return h
}

// process is an application that runs what it is assigned.
type process struct {
	t     *testing.T
	hub   *Hub
	req   Request
	reply *Reply
}

func newProcess(t *testing.T, h *Hub, id string) *process {
	t.Helper()
	return &process{t: t, hub: h, req: Request{App: id, Ready: true}}
}

// call makes one call, and runs what it is assigned.
func (p *process) call(wait float64) answer {
	p.t.Helper()
	p.req.Wait = wait
	a, err := p.hub.sync(p.t.Context(), &p.req, p.req.tokens())
	if err != nil {
		p.t.Fatal(err)
	}
	if a.reply != nil {
		p.reply = a.reply
		p.req.Session, p.req.Seq, p.req.Running = a.reply.Session, a.reply.Seq, a.reply.Assigned
	}
	return a
}

func (p *process) runs(keys ...string) {
	p.t.Helper()
	var got []string
	for _, a := range p.req.Running {
		got = append(got, a.Key)
	}
	slices.Sort(got)
	if !slices.Equal(got, keys) {
		p.t.Errorf("it runs %v, want %v", got, keys)
	}
}

// run gives a key to the application, and returns what ends it and how it ended.
func run(h *Hub, key elect.Key, token int64) (stop context.CancelCauseFunc, running chan struct{}, ended chan error) {
	return assign(h, Assignment{Key: key, Session: "of the key", Token: token, Grace: 5 * time.Second})
}

func assign(h *Hub, a Assignment) (stop context.CancelCauseFunc, running chan struct{}, ended chan error) {
	ctx, stop := context.WithCancelCause(context.Background())
	running, ended = make(chan struct{}), make(chan error, 1)
	go func() { ended <- h.Run(ctx, a, func() { close(running) }) }()
	return stop, running, ended
}

// givesBack takes a key from the application, which stops it at once.
func (p *process) givesBack(stop context.CancelCauseFunc, ended chan error) {
	p.t.Helper()
	stop(elect.ErrReleased)
	synctest.Wait()
	p.call(0) // it learns of the stop
	p.call(0)
	if err := <-ended; !errors.Is(err, elect.ErrReleased) {
		p.t.Errorf("it ended with %v", err)
	}
}

// Each reply has all keys of the application, so one for each key that moves would cost the square of their number.
func TestKeysThatMoveTogetherComeInOneReply(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHub(t)
		p := newProcess(t, h, first)
		p.call(0)
		var stops []context.CancelCauseFunc
		var ends []chan error
		go func() {
			time.Sleep(100 * time.Millisecond)
			for i := range 3 {
				stop, _, ended := run(h, elect.Key(fmt.Sprint("g/", i)), 7)
				stops, ends = append(stops, stop), append(ends, ended)
			}
		}()
		p.call(1)
		p.runs("g/0", "g/1", "g/2")
		synctest.Wait()
		p.call(0) // it runs them
		go func() {
			time.Sleep(100 * time.Millisecond)
			for _, stop := range stops {
				stop(elect.ErrReleased)
			}
		}()
		p.call(1)
		p.runs()
		if len(p.reply.Stopping) != 3 {
			t.Errorf("stopping %+v", p.reply.Stopping)
		}
		p.call(0)
		for _, ended := range ends {
			if err := <-ended; !errors.Is(err, elect.ErrReleased) {
				t.Error(err)
			}
		}
	})
}

func TestKeysAreGivenAndTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHub(t)
		p := newProcess(t, h, first)
		p.call(0)
		if !h.Capacity() {
			t.Error("an application that is ready has no capacity")
		}
		stop, running, ended := run(h, "g/one", 7)
		synctest.Wait()
		p.call(1)
		p.runs("g/one")
		if p.reply.ValidFor != hard.Seconds() {
			t.Errorf("valid for %v s", p.reply.ValidFor)
		}
		began := time.Now()
		p.call(1)
		<-running
		if took := time.Since(began); took != time.Second {
			t.Errorf("a call without news waited for %v", took)
		}
		go func() { time.Sleep(300 * time.Millisecond); stop(elect.ErrReleased) }()
		began = time.Now()
		p.call(1)
		if took := time.Since(began); took != 300*time.Millisecond+coalesceFor {
			t.Errorf("a stop was said after %v", took)
		}
		p.runs()
		within := (5*time.Second - coalesceFor).Seconds()
		if s := p.reply.Stopping; len(s) != 1 || s[0].Key != "g/one" || s[0].Within != within {
			t.Errorf("stopping %+v", s)
		}
		select {
		case err := <-ended:
			t.Errorf("it ended before the application said so: %v", err)
		default:
		}
		p.call(0)
		if err := <-ended; !errors.Is(err, elect.ErrReleased) {
			t.Errorf("it ended with %v", err)
		}
	})
}

// TestACallThatCrossesFreesNothing: a call that was sent before the key was assigned does not list it.
func TestACallThatCrossesFreesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHub(t)
		p := newProcess(t, h, first)
		p.call(0)
		old := p.req
		stop, _, ended := run(h, "g/one", 7)
		synctest.Wait()
		p.call(0)
		stop(elect.ErrReleased)
		synctest.Wait()
		if _, err := h.sync(t.Context(), &old, old.tokens()); err != nil {
			t.Fatal(err)
		}
		select {
		case err := <-ended:
			t.Fatalf("a call of before freed the key: %v", err)
		default:
		}
		p.call(0) // it learns of the stop
		p.call(0)
		if err := <-ended; errors.Is(err, ErrGone) {
			t.Error(err)
		}
	})
}

// TestLoadsOfAssignedKeysArePassedOn: those of other keys are not.
func TestLoadsOfAssignedKeysArePassedOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHub(t)
		loads := map[elect.Key]float64{}
		h.cfg.Load = func(key elect.Key, load float64) { loads[key] = load }
		p := newProcess(t, h, first)
		p.call(0)
		stop, _, ended := run(h, "g/one", 7)
		synctest.Wait()
		p.req.Load = map[string]float64{"g/one": 3.5, "g/two": 1}
		p.call(0)
		if len(loads) != 1 || loads["g/one"] != 3.5 {
			t.Errorf("got %v", loads)
		}
		p.givesBack(stop, ended)
	})
}

// TestALostKeyThatGoesOn: the application is overdue a tenth of the lease later, unless it has stopped the key.
func TestALostKeyThatGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHub(t)
		p := newProcess(t, h, first)
		p.call(0)
		for _, stops := range []bool{true, false} {
			stop, _, ended := run(h, "g/one", 7)
			synctest.Wait()
			p.call(0)
			stop(elect.ErrLeaseLost)
			synctest.Wait()
			p.call(0) // it learns of the stop
			if stops {
				p.call(0)
				if err := <-ended; errors.Is(err, ErrGone) {
					t.Error(err)
				}
			}
			if overdue, _ := h.Overdue(0); overdue {
				t.Error("it is overdue at once")
			}
			time.Sleep(h.cfg.MaxWait)
			if _, lost := h.Overdue(0); lost == stops {
				t.Errorf("it stops: %v; overdue for a key that was lost: %v", stops, lost)
			}
		}
		h.Ended()
		if overdue, _ := h.Overdue(0); overdue {
			t.Error("it has ended, and is overdue")
		}
	})
}

func TestASilentApplicationLosesItsKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHub(t)
		p, q := newProcess(t, h, first), newProcess(t, h, second)
		p.call(0)
		_, _, ended := run(h, "g/one", 7)
		synctest.Wait()
		p.call(0)
		began := time.Now()
		if overdue, _ := h.Overdue(hard - 1); overdue {
			t.Error("it is overdue at once")
		}
		if a := q.call(0); a.refused != hard {
			t.Errorf("a second application is refused for %v", a.refused)
		}
		if s := h.Status(); s.App != first || s.Refused != second {
			t.Errorf("refused is %q beside %s", s.Refused, s.App)
		}
		if err := <-ended; !errors.Is(err, ErrGone) || time.Since(began) < hard || time.Since(began) > hard+time.Second {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
		if overdue, lost := h.Overdue(0); h.Capacity() || !overdue || lost {
			t.Error("an application that is silent has capacity, or is not overdue")
		}
		if a := q.call(0); a.reply == nil {
			t.Errorf("the second application is still refused: %+v", a)
		}
		if s := h.Status(); s.App != second || s.Refused != "" {
			t.Errorf("refused is %q beside %s", s.Refused, s.App)
		}
		_, _, ended = run(h, "g/two", 8)
		synctest.Wait()
		q.call(0)
		q.runs("g/two")
		h.Ended()
		if err := <-ended; !errors.Is(err, ErrGone) {
			t.Errorf("the process is gone: %v", err)
		}
	})
}

// TestWhoCallsIsNotSilent: without a lease the replica promises nothing. That is not the application's silence, and its
// calls change nothing until there is a lease again.
func TestWhoCallsIsNotSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var changes atomic.Int64
		began := time.Now()
		lost, back := began.Add(hard), began.Add(3*hard)
		h := NewHub(Config{
			Clock: elect.GoClock(), MaxWait: time.Second, Changed: func() { changes.Add(1) },
			Session: func() (string, time.Duration) {
				if now := time.Now(); !now.Before(back) {
					return "session", hard
				}
				return "session", time.Until(lost)
			},
		})
		t.Cleanup(h.Close)
		p := newProcess(t, h, first)
		for time.Now().Before(back.Add(-hard)) {
			p.call(1)
			if h.Capacity() && !time.Now().Before(lost) {
				t.Fatal("without a lease a call makes it take keys")
			}
			time.Sleep(h.cfg.MaxWait / 2) // a tick passes
		}
		if n := changes.Load(); n != 2 {
			t.Errorf("%d changes, want one as it comes and one as the lease is over", n)
		}
		s := h.Status()
		if why, got := s.NotReady(""); why != ReasonLeaseLost || got != "the lease of the replica is over" {
			t.Errorf("without a lease: %s: %q", why, got)
		}
		time.Sleep(hard)
		s = h.Status()
		if why, _ := s.NotReady(""); why != ReasonSilent {
			t.Errorf("and then it does not call: %s", why)
		}
		if h.Capacity() {
			t.Error("the lease is back, and it takes keys without a call")
		}
		if p.call(0); !h.Capacity() {
			t.Error("the lease is back, and its call does not make it take keys")
		}
	})
}

// TestOneThatIsReadyNowAndThen: it loses its keys at once. It takes some again after a pause, and each such turn begins
// another. What it says before it was ever ready costs nothing.
func TestOneThatIsReadyNowAndThen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHub(t)
		changes := 0
		h.cfg.Changed = func() { changes++ }
		p := newProcess(t, h, first)
		says := func(ready bool) {
			p.req.Ready = ready
			p.call(0)
			time.Sleep(h.cfg.MaxWait)
		}
		says(false)
		if says(true); !h.Capacity() || changes != 2 {
			t.Fatalf("once it is ready: capacity %v, %d changes", h.Capacity(), changes)
		}
		for range 100 {
			p.req.Ready = false
			if p.call(0); h.Capacity() {
				t.Fatal("it says that it is not ready, and is given keys")
			}
			time.Sleep(h.cfg.MaxWait)
			says(true)
		}
		if s := h.Status(); changes != 3 {
			why, message := s.NotReady("")
			t.Errorf("it turned a hundred times: %d changes: %s: %s", changes, why, message)
		}
		turned := time.Now().Add(-2 * h.cfg.MaxWait)
		for !h.Capacity() {
			s := h.Status()
			if why, got := s.NotReady(""); why != ReasonNotReady || got != "it turned not ready less than 15s ago" {
				t.Errorf("%s: %q", why, got)
			}
			says(true)
		}
		if took := time.Since(turned); took < protocol.AppPause || took > protocol.AppPause+h.cfg.MaxWait {
			t.Errorf("it takes keys again after %v", took)
		}
		if says(true); changes != 4 {
			t.Errorf("%d changes, want one more as it takes keys again", changes)
		}
		says(false)
		q := newProcess(t, h, second)
		h.Ended()
		if q.call(0); !h.Capacity() {
			t.Error("another process is paused as well")
		}
	})
}

func TestWhatIsKnownIsNotSaidAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHub(t)
		p := newProcess(t, h, first)
		p.call(0)
		stop, _, ended := run(h, "g/one", 7)
		synctest.Wait()
		p.call(0)
		p.call(0) // lists it
		listed := p.req.Running
		p.req.Running, p.req.Same = nil, p.reply.Listed
		p.call(0)
		if p.reply.Assigned != nil || p.reply.Stopping != nil || p.reply.Listed != p.req.Same {
			t.Errorf("it was said again: %+v", p.reply)
		}
		p.req.Same = "another"
		p.call(0)
		if p.reply.Listed != "" || len(p.reply.Assigned) != 1 {
			t.Errorf("it does not ask for the list: %+v", p.reply)
		}
		p.req.Running, p.req.Same = listed, ""
		p.givesBack(stop, ended)
	})
}

// TestAnotherApplicationDisturbsNothing holds that a call that is refused changes nothing for the one that waits: that
// one is answered when its wait is over.
func TestAnotherApplicationDisturbsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHub(t)
		p, q := newProcess(t, h, first), newProcess(t, h, second)
		p.call(0)
		p.call(0) // lists nothing
		p.req.Same = p.reply.Listed
		go func() { time.Sleep(300 * time.Millisecond); q.call(0) }()
		began := time.Now()
		p.call(1)
		if took := time.Since(began); took != time.Second || p.reply.Listed != p.req.Same {
			t.Errorf("after %v: %+v", took, p.reply)
		}
	})
}

// guarding notes what a guard is asked for.
type guarding struct {
	calls          []string
	assign, extend error
}

func (g *guarding) Assigning(session string, key elect.Key) error {
	g.calls = append(g.calls, "assigning "+session+" "+string(key))
	return g.assign
}

func (g *guarding) Released(session string, key elect.Key) {
	g.calls = append(g.calls, "released "+session+" "+string(key))
}

func (g *guarding) ValidFor(d time.Duration) error {
	g.calls = append(g.calls, "valid for "+d.String())
	return g.extend
}

// TestTheGuardKnowsFirst: what the guard does not know, the application is not promised.
func TestTheGuardKnowsFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &guarding{}
		h := newGuardedHub(t, g)
		p := newProcess(t, h, first)
		p.call(0)
		stop, _, ended := run(h, "g/one", 1)
		synctest.Wait()
		p.call(0)
		p.givesBack(stop, ended)
		want := []string{
			"valid for 9s", "assigning of the key g/one", "valid for 9s", "valid for 9s", "released of the key g/one",
			"valid for 9s",
		}
		if !slices.Equal(g.calls, want) {
			t.Errorf("it was asked for %q, want %q", g.calls, want)
		}
		g.assign, g.extend = errors.New("gone"), errors.New("gone")
		if err := h.Run(t.Context(), Assignment{Key: "g/two", Token: 2}, func() {}); !errors.Is(err, g.assign) {
			t.Errorf("a key that the guard does not know: %v", err)
		}
		p.call(0)
		if p.runs(); p.reply.ValidFor != 0 {
			t.Errorf("without the guard it is valid for %v s", p.reply.ValidFor)
		}
	})
}

// TestWhatIsKnownOfAnApplication: what it said, what it has to stop and until when, and why it is given no keys.
func TestWhatIsKnownOfAnApplication(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHub(t)
		none := h.Status()
		if why, got := none.NotReady("unix:/a"); why != ReasonNotCalled || got != "none has called at unix:/a" {
			t.Errorf("before a call: %s: %q", why, got)
		}
		p := newProcess(t, h, first)
		p.req.Status = map[string]string{"lag": "7", "long": strings.Repeat("é", maxReportedText)}
		for i := range maxReported {
			p.req.Status[fmt.Sprint("x", i)] = ""
		}
		p.call(0)
		stop, _, ended := run(h, "g/k", 1)
		synctest.Wait()
		p.call(0)
		p.call(0) // says that it runs
		began := time.Now()
		stop(errors.New("Balance"))
		time.Sleep(coalesceFor)
		synctest.Wait()
		s := h.Status()
		if by := s.Stopping["g/k"]; !by.Equal(began.Add(5*time.Second)) || len(s.Stopping) != 1 {
			t.Errorf("it has to stop %v", s.Stopping)
		}
		if why, _ := s.NotReady(""); !s.Ready || why != "" || s.Reported["lag"] != "7" ||
			len(s.Reported) != maxReported || len(s.Reported["long"]) > maxReportedText {
			t.Errorf("known is %+v", s)
		}
		p.req.Ready = false
		p.call(0)
		p.call(0)
		if err := <-ended; err == nil || err.Error() != "Balance" {
			t.Errorf("it ended with %v", err)
		}
		s = h.Status()
		why, got := s.NotReady("")
		if why != ReasonNotReady || got != "it says that it is not ready" || len(s.Stopping) != 0 {
			t.Errorf("not ready: %s: %q, stopping %v", why, got, s.Stopping)
		}
		p.req.Ready = true
		p.call(0)
		last := time.Now()
		time.Sleep(2 * hard)
		s = h.Status()
		why, got = s.NotReady("")
		if why != ReasonSilent || got != "it has not called since "+last.UTC().Format(time.RFC3339) {
			t.Errorf("silent: %s: %q", why, got)
		}
		h.Ended()
		if s = h.Status(); s.App != "" {
			t.Errorf("after its end: %+v", s)
		}
	})
}

// kept is a value of a key.
type kept []byte

func (k kept) Value(context.Context) ([]byte, error)  { return k, nil }
func (k kept) SetValue(context.Context, []byte) error { return nil }

// TestAValueSaysItsLength: one that is cut off does not look whole, as in HTTP/1.0 it would.
func TestAValueSaysItsLength(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHub(t)
		p := newProcess(t, h, first)
		p.call(0)
		stop, _, ended := assign(h, Assignment{Key: "g/a", Token: 7, Value: kept(make([]byte, 10_000))})
		synctest.Wait()
		p.call(0)
		p.runs("g/a")
		r := httptest.NewRequest(http.MethodGet, "/v1/value/g/a", nil)
		r.Header.Set(api.TokenHeader, "7")
		w := httptest.NewRecorder()
		(&Server{Hub: h}).Handler().ServeHTTP(w, r)
		if w.Code != http.StatusOK || w.Header().Get("Content-Length") != "10000" {
			t.Errorf("%d with %v", w.Code, w.Header())
		}
		p.givesBack(stop, ended)
	})
}
