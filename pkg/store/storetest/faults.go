package storetest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/shardctl/shardctl/internal/clock"
	"github.com/shardctl/shardctl/pkg/store/driver"
)

// A Fault is something that happens to the servers of a store, or to the network in front of them.
type Fault struct {
	// Name names the fault in errors.
	Name string
	// Begin and End are called in the goroutine of the test. A nil End leaves things as Begin made them, and the store
	// has to go on all the same, as after a connection that was cut or a server that another one took over from.
	Begin, End func()
	// Silent says that no call can succeed between Begin and End: each ends when its context does, as unavailable.
	// Otherwise all writers have to go on while the fault lasts.
	Silent bool
	// Seamless says that watches go on without a Resync.
	Seamless bool
}

// Faults tests a store through faults that come one after the other, while clients write and watch. Whatever happens,
// nothing that was acknowledged is lost, no writer is refused what only it writes, what is not known is unavailable, no
// call outlasts its context, and watches go on.
type Faults struct {
	// Open opens a client on which the faults act. It ends with the test.
	Open func(t *testing.T) driver.Store
	// Call is the time that one call gets. Zero means one second.
	Call time.Duration
	// Patience is how long everything may take to go on. Zero means one minute.
	Patience time.Duration
	// CountsMore is that of [Database].
	CountsMore bool
	// WatchEnds says that a fault may end a watch, whose caller has to begin another one.
	WatchEnds bool
}

// Run runs the test.
func (f Faults) Run(t *testing.T, faults ...Fault) {
	t.Helper()
	s, watcher := f.Open(t), f.Open(t)
	notes := f.watch(t, watcher)
	w := f.Write(t, s)
	w.GoOn(t)
	for i, fault := range faults {
		fault.Begin()
		if fault.Silent {
			f.wantSilence(t, s, fault.Name)
		} else {
			t.Logf("%s: all write again after %v", fault.Name, w.GoOn(t).Round(time.Millisecond))
		}
		if fault.End != nil {
			fault.End()
			t.Logf("after %s: all write again after %v", fault.Name, w.GoOn(t).Round(time.Millisecond))
		}
		notes = f.wantWatched(t, watcher, notes, fmt.Sprint("after-", i), fault)
	}
	w.Check(t, watcher)
}

// watch begins a watch, as often as it takes.
func (f Faults) watch(t *testing.T, s driver.Store) <-chan driver.Notification {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), f.patience())
	defer cancel()
	for {
		notes, err := s.Watch(t.Context(), driver.Interest{})
		if err == nil {
			if first, open := <-notes; open && !first.Resync {
				t.Fatalf("first notification %+v, want a Resync", first)
			}
			return notes
		}
		if !errors.Is(err, driver.ErrUnavailable) || ctx.Err() != nil {
			t.Fatalf("watch: %v", err)
		}
	}
}

// wantWatched wants what happens now to be notified of, after what may have happened in the fault.
func (f Faults) wantWatched(
	t *testing.T, s driver.Store, notes <-chan driver.Notification, group string, fault Fault,
) <-chan driver.Notification {
	t.Helper()
	if !fault.Seamless {
		for ended := false; len(notes) > 0 && !ended; {
			_, open := <-notes
			ended = !open
		}
	}
	for {
		f.Until(t, s, increment(group))
		resync, open := f.notified(t, notes, group)
		switch {
		case open && resync && fault.Seamless:
			t.Errorf("%s: the watch lost its place", fault.Name)
			return notes
		case open:
			return notes
		case !f.WatchEnds:
			t.Fatalf("%s: the watch ended", fault.Name)
		}
		notes = f.watch(t, s)
	}
}

// Notified waits until a watch notifies of a group, or that everything is to be looked at.
func (f Faults) Notified(t *testing.T, notes <-chan driver.Notification, group string) {
	t.Helper()
	if _, open := f.notified(t, notes, group); !open {
		t.Fatal("the watch has ended")
	}
}

func (f Faults) notified(t *testing.T, notes <-chan driver.Notification, group string) (resync, open bool) {
	t.Helper()
	late := time.NewTimer(f.patience())
	defer late.Stop()
	for {
		select {
		case n, open := <-notes:
			if !open || n.Resync || n.Kind == driver.KindGroup && n.ID == group {
				return n.Resync, open
			}
		case <-late.C:
			t.Fatalf("no notification of group %s within %v", group, f.patience())
		}
	}
}

// wantSilence wants calls that get no answer to end in time, as unavailable.
func (f Faults) wantSilence(t *testing.T, s driver.Store, name string) {
	t.Helper()
	const late = 20 * time.Second // a busy machine; without a limit a call would wait for the end of the fault
	for range 3 {
		began := time.Now()
		out := f.One(t, s, Heartbeat("nobody", 0))
		if out.Status != driver.Unknown {
			t.Errorf("%s: a write ends as %s", name, describe(out))
		}
		ctx, cancel := context.WithTimeout(t.Context(), f.call())
		reply, err := s.Read(ctx, driver.KindLock, "writer/0")
		cancel()
		if !errors.Is(err, driver.ErrUnavailable) {
			t.Errorf("%s: a read has %+v, %v", name, reply.Docs, err)
		}
		if took := time.Since(began); took > 2*f.call()+late {
			t.Errorf("%s: a write and a read of %v each took %v", name, f.call(), took)
		}
	}
}

func (f Faults) call() time.Duration {
	if f.Call == 0 {
		return time.Second
	}
	return f.Call
}

func (f Faults) patience() time.Duration {
	if f.Patience == 0 {
		return time.Minute
	}
	return f.Patience
}

// One applies a change within the time of a call. An unknown outcome has to be one of an unavailable store.
func (f Faults) One(t *testing.T, s driver.Store, c driver.Change) driver.Outcome {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), f.call())
	defer cancel()
	out := applyIn(ctx, t, s, c)
	if out.Status == driver.Unknown && !errors.Is(out.Err, driver.ErrUnavailable) {
		t.Fatalf("%s %s is unknown without ErrUnavailable: %v", c.Doc.Kind, c.Doc.ID, out.Err)
	}
	return out
}

// Until repeats a change, as callers do, until it is applied.
func (f Faults) Until(t *testing.T, s driver.Store, c driver.Change) {
	t.Helper()
	for end := time.Now().Add(f.patience()); ; {
		switch out := f.One(t, s, c); {
		case out.Status == driver.Applied:
			return
		case out.Status != driver.Unknown:
			t.Fatalf("%s %s: %s", c.Doc.Kind, c.Doc.ID, describe(out))
		case time.Now().After(end):
			t.Fatalf("%s %s is not applied within %v: %s", c.Doc.Kind, c.Doc.ID, f.patience(), describe(out))
		}
	}
}

// writersCount is how many documents are written in parallel.
const writersCount = 4

// Writers write documents by compare-and-set without a pause, each its own, and one of them a counter. They remember
// what was acknowledged.
type Writers struct {
	faults Faults
	stop   context.CancelFunc
	ended  sync.WaitGroup
	docs   [writersCount + 1]written // the last is the counter
}

// written is how far a writer has come.
type written struct{ acknowledged, tried atomic.Int64 }

// Write starts writers, until [Writers.Check] ends them.
func (f Faults) Write(t *testing.T, s driver.Store) *Writers {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	w := &Writers{faults: f, stop: stop}
	t.Cleanup(func() {
		stop()
		w.ended.Wait()
	})
	for i := range w.docs {
		w.ended.Go(func() { w.run(ctx, t, s, i) })
	}
	return w
}

func (w *Writers) run(ctx context.Context, t *testing.T, s driver.Store, i int) {
	t.Helper()
	at := &w.docs[i]
	for rev := int64(0); ; {
		c := increment("counted")
		if i < writersCount {
			c = driver.Change{IfRev: rev, Doc: driver.Doc{
				Kind: driver.KindLock, ID: fmt.Sprint("writer/", i), Group: "writer", Session: "owner", Rev: rev + 1,
				Count: rev + 1, WriterID: driver.WriterID{Session: fmt.Sprint("writer-", i), Seq: rev + 1},
			}}
		}
		if ctx.Err() != nil {
			return
		}
		at.tried.Add(1)
		limited, cancel := context.WithTimeout(ctx, w.faults.call())
		outs, err := s.Apply(limited, c)
		cancel()
		switch {
		case ctx.Err() != nil && err == nil && outs[0].Status == driver.Unknown:
			return
		case err != nil || outs[0].Status != driver.Applied && outs[0].Status != driver.Unknown:
			t.Errorf("the only writer of %s at %d: %+v, %v", c.Doc.ID, rev, outs, err)
			return
		case outs[0].Status == driver.Applied:
			rev++
			at.acknowledged.Store(rev)
		case !errors.Is(outs[0].Err, driver.ErrUnavailable):
			t.Errorf("%s at %d is unknown without ErrUnavailable: %v", c.Doc.ID, rev, outs[0].Err)
			return
		}
	}
}

// GoOn waits until each writer has had two more writes acknowledged, and returns how long that took.
func (w *Writers) GoOn(t *testing.T) time.Duration {
	t.Helper()
	began := time.Now()
	var from [writersCount + 1]int64
	for i := range w.docs {
		from[i] = w.docs[i].acknowledged.Load()
	}
	for i := range w.docs {
		for w.docs[i].acknowledged.Load() < from[i]+2 {
			if t.Failed() || time.Since(began) > w.faults.patience() {
				t.Fatalf("writer %d does not go on within %v", i, w.faults.patience())
			}
			_ = clock.Sleep(t.Context(), time.Millisecond)
		}
	}
	return time.Since(began)
}

// Check ends the writers, once all go on. What was acknowledged is there, and nothing but that and the last attempt.
func (w *Writers) Check(t *testing.T, s driver.Store) {
	t.Helper()
	w.GoOn(t)
	w.stop()
	w.ended.Wait()
	ctx, cancel := context.WithTimeout(t.Context(), w.faults.patience())
	defer cancel()
	for i := range w.docs {
		kind, id := driver.KindLock, fmt.Sprint("writer/", i)
		acknowledged := w.docs[i].acknowledged.Load()
		most := acknowledged + 1
		if i == writersCount { // each attempt that was not answered may have counted
			kind, id, most = driver.KindGroup, "counted", w.docs[i].tried.Load()
		}
		reply, err := s.Read(ctx, kind, id)
		for errors.Is(err, driver.ErrUnavailable) && ctx.Err() == nil {
			reply, err = s.Read(ctx, kind, id)
		}
		if err != nil || len(reply.Docs) != 1 {
			t.Errorf("read %s %s: %+v, %v", kind, id, reply.Docs, err)
			continue
		}
		found := reply.Docs[0]
		tooMany := found.Count > most && (kind != driver.KindGroup || !w.faults.CountsMore)
		if acknowledged == 0 || found.Count < acknowledged || tooMany || kind == driver.KindLock && found.Count != found.Rev {
			t.Errorf("%s %s is %+v; acknowledged up to %d, tried up to %d", kind, id, found, acknowledged, most)
		}
	}
}
