package elect_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"

	"github.com/shardctl/shardctl/internal/cluster"
	"github.com/shardctl/shardctl/internal/electing"
	"github.com/shardctl/shardctl/internal/record"
	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/memory"
)

const lease = 4 * time.Second

// node is one elector under test.
type node struct {
	*elect.Elector
	elect.Cluster // of the elector
	store         *memory.Store
	cancel        context.CancelFunc
	done          chan struct{}
	stuck         atomic.Int64
}

// startNode runs an elector until the test ends.
func startNode(t *testing.T, db *memory.Store, name string, change ...func(*elect.Config)) *node {
	t.Helper()
	n := &node{store: db.Client(), done: make(chan struct{})}
	cfg := elect.Config{
		Store: n.store, Member: elect.Member{Instance: name}, LeaseDuration: lease,
		Logger: logr.Discard(), Clock: elect.GoClock(),
		OnStuck: func([]elect.Key) { n.stuck.Add(1) },
	}
	for _, c := range change {
		c(&cfg)
	}
	ctx, cancel := context.WithCancel(t.Context())
	n.cancel = cancel
	e, err := elect.Start(ctx, cfg)
	if err != nil {
		t.Fatal(err)
	}
	n.Elector, n.Cluster = e, e.Cluster()
	go func() {
		defer close(n.done)
		if err := e.Wait(); err != nil {
			t.Errorf("Wait: %v", err)
		}
	}()
	return n
}

// twoNodes starts a and b, which track the group g, on a store of their own.
func twoNodes(t *testing.T) (db *memory.Store, rec *recorder, a, b *node) {
	t.Helper()
	db, rec = memory.New(), newRecorder(t)
	a, b = startNode(t, db, "a"), startNode(t, db, "b")
	a.track(t)
	b.track(t)
	return db, rec, a, b
}

func (n *node) stop() {
	n.cancel()
	<-n.done
}

// recorder notes who runs what, and that no two run one key at once.
type recorder struct {
	t      *testing.T
	mu     sync.Mutex
	active map[elect.Key]string
	tokens map[elect.Key]int64
	starts int
}

func newRecorder(t *testing.T) *recorder {
	t.Helper()
	return &recorder{t: t, active: map[elect.Key]string{}, tokens: map[elect.Key]int64{}}
}

// hold is a run that goes on until its context ends.
func (r *recorder) hold(who string) elect.RunFunc {
	return func(ctx context.Context, l *elect.Lease) error {
		r.begin(who, l)
		<-ctx.Done()
		r.end(l.Key())
		return context.Cause(ctx)
	}
}

func (r *recorder) begin(who string, l *elect.Lease) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.starts++
	if other, ok := r.active[l.Key()]; ok {
		r.t.Errorf("%s starts %s while %s runs it", who, l.Key(), other)
	}
	if l.Token() <= r.tokens[l.Key()] {
		r.t.Errorf("%s: token %d after %d", l.Key(), l.Token(), r.tokens[l.Key()])
	}
	r.active[l.Key()], r.tokens[l.Key()] = who, l.Token()
}

func (r *recorder) token(key elect.Key) int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.tokens[key]
}

func (r *recorder) started() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.starts
}

func (r *recorder) end(key elect.Key) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.active, key)
}

func (r *recorder) owner(key elect.Key) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.active[key]
}

// eventually waits, in the bubble's time, until ok says yes.
func eventually(t *testing.T, limit time.Duration, what string, ok func() bool) time.Duration {
	t.Helper()
	begin := time.Now()
	for !ok() {
		if time.Since(begin) > limit {
			t.Fatalf("after %v still not: %s", limit, what)
		}
		time.Sleep(time.Millisecond)
	}
	return time.Since(begin)
}

func mustLock(t *testing.T, n *node, key elect.Key, run elect.RunFunc) {
	t.Helper()
	if ok, err := n.Lock(t.Context(), key, run); !ok || err != nil {
		t.Fatalf("Lock(%s) = %v, %v", key, ok, err)
	}
}

func TestLockIsExclusive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, rec := memory.New(), newRecorder(t)
		a, b := startNode(t, db, "a"), startNode(t, db, "b")
		mustLock(t, a, "g/k", rec.hold("a"))
		if ok, err := b.Lock(t.Context(), "g/k", rec.hold("b")); ok || err != nil {
			t.Fatalf("second Lock = %v, %v; want false, nil", ok, err)
		}
		if ok, err := a.Lock(t.Context(), "g/k", rec.hold("a")); ok || err != nil {
			t.Fatalf("Lock of an own key = %v, %v; want false, nil", ok, err)
		}
		if got := a.HoldingKeys(); !slices.Equal(got, []elect.Key{"g/k"}) {
			t.Errorf("HoldingKeys = %v", got)
		}
		if got, err := b.LockedKeys(t.Context()); err != nil || !slices.Equal(got, []elect.Key{"g/k"}) {
			t.Errorf("LockedKeys = %v, %v", got, err)
		}
		holder, ok, err := b.Holder(t.Context(), "g/k")
		if err != nil || !ok || holder.Instance != "a" || !holder.Alive {
			t.Errorf("Holder = %+v, %v, %v", holder, ok, err)
		}
		if err := a.Unlock(t.Context(), "g/k"); err != nil {
			t.Fatal(err)
		}
		if err := a.Unlock(t.Context(), "g/k"); !errors.Is(err, elect.ErrNotHeld) {
			t.Errorf("Unlock of a free key: %v", err)
		}
		mustLock(t, b, "g/k", rec.hold("b"))
		a.stop()
		b.stop()
	})
}

// Whenever it comes: what looks for deaths only now and then is late for some of them.
func TestCrashIsTakenOverWithinTheLease(t *testing.T) {
	for after := time.Second; after <= lease+time.Second; after += lease / 8 {
		t.Run(after.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { crashIsTakenOver(t, after) })
		})
	}
}

func crashIsTakenOver(t *testing.T, after time.Duration) {
	t.Helper()
	db, rec := memory.New(), newRecorder(t)
	a, b := startNode(t, db, "a"), startNode(t, db, "b")
	mustLock(t, a, "g/k", rec.hold("a"))
	time.Sleep(after)
	a.cut()
	begin := time.Now()
	ok, err := b.LockWith(t.Context(), "g/k", elect.LockOptions{WaitForever: true}, rec.hold("b"))
	if !ok || err != nil {
		t.Fatalf("Lock = %v, %v", ok, err)
	}
	if took := time.Since(begin); took > lease+time.Second || took < lease/2 {
		t.Errorf("taken over after %v", took)
	}
	b.stop()
	a.heal()
	a.stop()
}

// cut takes the store away from a node: nothing arrives any more.
func (n *node) cut() {
	n.store.Fault(func(memory.Call) memory.Verdict { return memory.Verdict{Fault: memory.Hang} })
}

func (n *node) heal() { n.store.Fault(nil) }

func TestCutOffHolderStopsByItselfAndComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, rec := memory.New(), newRecorder(t)
		a := startNode(t, db, "a")
		if err := a.Track(t.Context(), "g"); err != nil {
			t.Fatal(err)
		}
		eventually(t, lease, "open", func() bool { return a.View().Open })
		if err := a.Claim(
			t.Context(), []elect.Key{"g/k"}, elect.LockOptions{},
			func(elect.Key) elect.Runnable { return elect.Go(rec.hold("a")) },
		); err != nil {
			t.Fatal(err)
		}
		eventually(t, time.Second, "running", func() bool { return rec.owner("g/k") == "a" })
		time.Sleep(lease)
		a.cut()
		took := eventually(t, lease, "stopped", func() bool { return rec.owner("g/k") == "" })
		if took > lease*3/4+lease/10 || took < lease/2 {
			t.Errorf("stopped %v after the cut; want about three quarters of the lease", took)
		}
		time.Sleep(2 * lease)
		a.heal()
		// No one else was there to mark it dead: the same session goes on, the key under a new token.
		took = eventually(t, lease, "running again", func() bool { return rec.owner("g/k") == "a" })
		if took > 2*time.Second {
			t.Errorf("running again %v after the store was back", took)
		}
		if a.stuck.Load() != 0 {
			t.Error("the hard deadline was reached")
		}
		a.stop()
	})
}

func TestSessionEndedByAnotherIsReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, rec := memory.New(), newRecorder(t)
		a := startNode(t, db, "a")
		mustLock(t, a, "g/k", rec.hold("a"))
		first := a.View().Session
		if err := electing.MarkDead(t.Context(), db, electing.Session{ID: first}); err != nil {
			t.Fatal(err)
		}
		eventually(t, lease, "stopped", func() bool { return rec.owner("g/k") == "" })
		eventually(t, lease, "a new session", func() bool { v := a.View(); return v.Open && v.Session != first })
		mustLock(t, a, "g/k", rec.hold("a"))
		a.stop()
	})
}

func TestHandOverGoesToTheNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, rec := memory.New(), newRecorder(t)
		a, b := startNode(t, db, "a"), startNode(t, db, "b")
		for _, n := range []*node{a, b} {
			if err := n.Track(t.Context(), "g"); err != nil {
				t.Fatal(err)
			}
		}
		mustLock(t, a, "g/k", rec.hold("a"))
		eventually(t, lease, "b is open", func() bool { return b.View().Open })
		if err := a.Release(
			t.Context(),
			cluster.HandOver{Key: "g/k", Next: b.View().Session, Reason: record.ReasonBalance, Message: "more even"},
		); err != nil {
			t.Fatal(err)
		}
		took := eventually(
			t, time.Second, "b sees it reserved", func() bool { return b.View().Lock("g/k").Next == b.View().Session },
		)
		if took > 200*time.Millisecond {
			t.Errorf("seen after %v", took)
		}
		claim := func(n *node, who string) {
			if err := n.Claim(
				t.Context(), []elect.Key{"g/k"}, elect.LockOptions{},
				func(elect.Key) elect.Runnable { return elect.Go(rec.hold(who)) },
			); err != nil {
				t.Fatal(err)
			}
		}
		claim(a, "a") // held off: it is reserved for b, who lives
		claim(b, "b")
		eventually(t, time.Second, "b runs it", func() bool { return rec.owner("g/k") == "b" })
		if l := b.View().Lock("g/k"); l.Reason != record.ReasonBalance || l.Message != "more even" || l.From != "a" {
			t.Errorf("lock says reason %s (%s) from %q", l.Reason, l.Message, l.From)
		}
		a.stop()
		b.stop()
	})
}

func TestCapsHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, rec := memory.New(), newRecorder(t)
		a := startNode(
			t, db, "a", func(c *elect.Config) { c.Member.Caps = map[string]int{"g": 2}; c.Member.MaxTasks = 3 },
		)
		for i := range 2 {
			mustLock(t, a, elect.NewKey("g", fmt.Sprint(i)), rec.hold("a"))
		}
		if ok, err := a.Lock(t.Context(), "g/3", rec.hold("a")); ok || !errors.Is(err, elect.ErrCapReached) {
			t.Errorf("third of a cap of two: %v, %v", ok, err)
		}
		mustLock(t, a, "h/1", rec.hold("a"))
		if ok, err := a.Lock(t.Context(), "h/2", rec.hold("a")); ok || !errors.Is(err, elect.ErrCapReached) {
			t.Errorf("fourth of maxTasks three: %v, %v", ok, err)
		}
		a.stop()
	})
}

func TestLostAnswersAreRecognised(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, rec := memory.New(), newRecorder(t)
		a := startNode(t, db, "a")
		var calls atomic.Int64
		a.store.Fault(func(c memory.Call) memory.Verdict {
			if c.Op != memory.OpApply || calls.Add(1)%2 == 1 {
				return memory.Verdict{}
			}
			// Every other write happens, and its answer is lost.
			return memory.Verdict{Fault: memory.LoseAnswer}
		})
		for i := range 20 {
			key := elect.NewKey("g", fmt.Sprint(i))
			mustLock(t, a, key, rec.hold("a"))
			if i%2 == 0 {
				if err := a.Unlock(t.Context(), key); err != nil {
					t.Fatal(err)
				}
			}
		}
		synctest.Wait()
		if got := rec.started(); got != 20 {
			t.Errorf("%d starts for 20 locks", got)
		}
		a.store.Fault(nil)
		a.stop()
		keys, err := db.List(t.Context(), driver.KindLock, driver.Query{Sessions: []string{""}, CountOnly: true})
		if err != nil || keys.Total != 20 {
			t.Errorf("%d of 20 locks are free after Close: %v", keys.Total, err)
		}
	})
}

func TestMaxHoldReentranceAndPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, rec := memory.New(), newRecorder(t)
		a := startNode(t, db, "a")
		ok, err := a.LockWith(t.Context(), "g/limited", elect.LockOptions{MaxHold: time.Second}, rec.hold("a"))
		if !ok || err != nil {
			t.Fatal(ok, err)
		}
		took := eventually(t, lease, "ended", func() bool { return len(a.HoldingKeys()) == 0 })
		if took < time.Second || took > 1100*time.Millisecond {
			t.Errorf("held for %v", took)
		}

		again := make(chan int64, 2)
		leaf := func(ctx context.Context, l *elect.Lease) error { again <- l.Token(); <-ctx.Done(); return nil }
		mustLock(t, a, "g/shared", leaf)
		if ok, err := a.LockWith(t.Context(), "g/shared", elect.LockOptions{Reentrant: true}, leaf); !ok || err != nil {
			t.Fatal(ok, err)
		}
		if x, y := <-again, <-again; x != y {
			t.Errorf("tokens %d and %d of one lease", x, y)
		}

		mustLock(t, a, "g/panics", func(context.Context, *elect.Lease) error { panic("boom") })
		eventually(
			t, time.Second, "released", func() bool { _, held, _ := a.Holder(t.Context(), "g/panics"); return !held },
		)
		a.stop()
	})
}

func TestAdvanceReportAndValues(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := memory.New()
		a := startNode(t, db, "a")
		tokens := make(chan int64, 2)
		mustLock(t, a, "g/k", func(ctx context.Context, l *elect.Lease) error {
			tokens <- l.Token()
			mustSet(t, l, "offset 7")
			token, err := l.Advance(ctx, elect.TaskStatus{State: "running", Restarts: 1})
			if err != nil || token != l.Token() {
				t.Errorf("Advance = %d, %v", token, err)
			}
			tokens <- token
			l.Report(elect.TaskStatus{State: "backoff", Restarts: 1})
			<-ctx.Done()
			return nil
		})
		if first, second := <-tokens, <-tokens; second <= first {
			t.Errorf("token %d after %d", second, first)
		}
		eventually(t, time.Second, "reported", func() bool {
			res, err := db.Read(t.Context(), driver.KindLock, "g/k")
			if err != nil || len(res.Docs) != 1 {
				return false
			}
			l, err := record.LockFrom(res.Docs[0])
			return err == nil && l.Status.State == "backoff"
		})
		a.stop()
		b := startNode(t, db, "b")
		underLock(t, b, func(l *elect.Lease) { wantValue(t, l, "offset 7") })
		b.stop()
	})
}

func TestStuckRunReachesTheHardDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := memory.New()
		a := startNode(t, db, "a")
		free := make(chan struct{})
		mustLock(t, a, "g/deaf", func(context.Context, *elect.Lease) error { <-free; return nil })
		a.cut()
		took := eventually(t, 2*lease, "the hard deadline", func() bool { return a.stuck.Load() > 0 })
		if took > lease*9/10+lease/10 {
			t.Errorf("reported after %v", took)
		}
		close(free)
		a.heal()
		a.stop()
	})
}

func TestLockDeletedByHandStopsItsRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, rec := memory.New(), newRecorder(t)
		a := startNode(t, db, "a")
		mustLock(t, a, "g/k", rec.hold("a"))
		synctest.Wait()
		before := rec.token("g/k")
		res, err := db.Read(t.Context(), driver.KindLock, "g/k")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := db.Apply(
			t.Context(), driver.Change{Op: driver.Delete, IfRev: res.Docs[0].Rev, Doc: res.Docs[0]},
		); err != nil {
			t.Fatal(err)
		}
		took := eventually(t, lease, "stopped", func() bool { return rec.owner("g/k") == "" })
		if took > lease/2+lease/4 {
			t.Errorf("noticed after %v", took)
		}
		ok, err := a.LockWith(t.Context(), "g/k", elect.LockOptions{Wait: lease}, rec.hold("a"))
		if !ok || err != nil {
			t.Fatal(ok, err)
		}
		synctest.Wait()
		if got := rec.token("g/k"); got <= before {
			t.Errorf("token %d after %d", got, before)
		}
		a.stop()
	})
}

func TestBadConfigurationNamesEveryField(t *testing.T) {
	_, err := elect.New(elect.Config{
		LeaseDuration: time.Millisecond,
		Member:        elect.Member{Instance: "a", MaxTasks: -1, Caps: map[string]int{"g": -2}},
	})
	for _, want := range []string{
		"lease duration 1ms", "store: required", "member.maxTasks = -1", "member.caps[g] = -2",
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %q lacks %q", err, want)
		}
	}
}

func TestReleaseKeepsWhatAdvanceWrote(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := memory.New()
		a := startNode(t, db, "a")
		mustLock(t, a, "g/k", func(ctx context.Context, l *elect.Lease) error {
			done := elect.TaskStatus{State: "done", Outcome: &elect.RunOutcome{Succeeded: true, At: 1}}
			if _, err := l.Advance(ctx, done); err != nil {
				t.Error(err)
			}
			l.Suspend()
			return nil
		})
		eventually(t, time.Second, "released", func() bool { return len(a.HoldingKeys()) == 0 })
		a.stop()
		res, err := db.Read(t.Context(), driver.KindLock, "g/k")
		if err != nil || len(res.Docs) != 1 {
			t.Fatal(res, err)
		}
		l, err := record.LockFrom(res.Docs[0])
		if err != nil || !l.Suspended || l.Session != "" || l.Status.Outcome == nil {
			t.Errorf("after the release: %+v, %v", l, err)
		}
	})
}

func TestClaimLeavesOutWhatChangedSinceItWasSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, rec := memory.New(), newRecorder(t)
		a := startNode(t, db, "a")
		if err := a.Track(t.Context(), "g"); err != nil {
			t.Fatal(err)
		}
		eventually(t, lease, "loaded", func() bool { return a.View().Loaded && a.View().Open })
		seen := a.View()
		mustLock(t, a, "g/k", rec.hold("a"))
		if err := a.Unlock(t.Context(), "g/k"); err != nil {
			t.Fatal(err)
		}
		claim := func(seen *cluster.View) {
			opts := elect.LockOptions{Seen: seen}
			run := func(elect.Key) elect.Runnable { return elect.Go(rec.hold("a")) }
			if err := a.Claim(t.Context(), []elect.Key{"g/k"}, opts, run); err != nil {
				t.Fatal(err)
			}
			time.Sleep(lease)
		}
		claim(seen)
		if got := rec.started(); got != 1 {
			t.Errorf("%d starts after a claim decided on an old view, want the first one alone", got)
		}
		claim(a.View())
		if got := rec.started(); got != 2 {
			t.Errorf("%d starts after a claim decided on the present view, want 2", got)
		}
		a.stop()
	})
}
