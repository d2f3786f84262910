package postgres_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/postgres"
	"github.com/shardctl/shardctl/test/testservers"
)

// patience bounds what a test waits for.
const patience = 30 * time.Second

// brief is how long a call may take that meets a fault.
const brief = 700 * time.Millisecond

// openBrief opens a store whose timeouts are those of a short lease.
func openBrief(t *testing.T, uri string) store.Store {
	t.Helper()
	return openWithin(t, uri, time.Second)
}

// openWithin opens a store with a timeout for its calls. That may be too short for a connection on a busy machine,
// which is then tried again.
func openWithin(t *testing.T, uri string, timeout time.Duration) store.Store {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	open := func() (store.Store, error) { return postgres.Open(ctx, postgres.Options{URI: uri, Timeout: timeout}) }
	s, err := open()
	for errors.Is(err, store.ErrUnavailable) && ctx.Err() == nil {
		s, err = open()
	}
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := s.Close(ctx); err != nil {
			t.Logf("close: %v", err) // of a server that is gone
		}
	})
	return s
}

// increment is one write that counts.
func increment(id string) store.Change {
	return store.Change{Op: store.Increment, Doc: store.Doc{Kind: store.KindGroup, ID: id}}
}

// one applies a change within the time of a brief call.
func one(t *testing.T, s store.Store, c store.Change) store.Outcome {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), brief)
	defer cancel()
	outs, err := s.Apply(ctx, c)
	if err != nil {
		t.Fatal(err)
	}
	if out := outs[0]; out.Status == store.Unknown && !errors.Is(out.Err, store.ErrUnavailable) {
		t.Fatalf("unknown without ErrUnavailable: %v", out.Err)
	}
	return outs[0]
}

// until repeats a change until it is applied.
func until(t *testing.T, s store.Store, c store.Change) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for time.Now().Before(deadline) {
		if out := one(t, s, c); out.Status == store.Applied {
			return
		} else if out.Status != store.Unknown {
			t.Fatalf("%+v", out)
		}
	}
	t.Fatalf("not applied within %v", patience)
}

// count reads a counter.
func count(t *testing.T, s store.Store, id string) int64 {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for {
		reply, err := s.Read(ctx, store.KindGroup, id)
		switch {
		case err == nil && len(reply.Docs) == 1:
			return reply.Docs[0].Count
		case err == nil:
			return 0
		case ctx.Err() != nil || !errors.Is(err, store.ErrUnavailable):
			t.Fatal(err)
		}
	}
}

// writers write documents by compare-and-set without a pause, each its own, and remember what was acknowledged.
type writers struct {
	stop  chan struct{}
	ended sync.WaitGroup
	acked [4]int64
	tried [4]int64
}

func write(t *testing.T, s store.Store) *writers {
	t.Helper()
	w := &writers{stop: make(chan struct{})}
	for i := range w.acked {
		w.ended.Go(func() { w.run(t, s, i) })
	}
	return w
}

func (w *writers) run(t *testing.T, s store.Store, i int) {
	t.Helper()
	d := store.Doc{Kind: store.KindValue, ID: fmt.Sprint("g/", i)}
	for rev := int64(0); ; rev++ {
		d.Rev, d.Count, d.WriterID = rev+1, rev+1, store.WriterID{Session: fmt.Sprint("w", i), Seq: rev + 1}
		for {
			select {
			case <-w.stop:
				return
			default:
			}
			w.tried[i] = rev + 1
			ctx, cancel := context.WithTimeout(t.Context(), brief)
			outs, err := s.Apply(ctx, store.Change{IfRev: rev, Doc: d})
			cancel()
			if err != nil || outs[0].Status != store.Applied && outs[0].Status != store.Unknown {
				t.Errorf("writer %d at %d: %+v, %v", i, rev, outs, err)
				return
			}
			if outs[0].Status == store.Applied {
				w.acked[i] = rev + 1
				break
			}
		}
	}
}

// check ends the writers: what was acknowledged is there, and nothing but that and the last try.
func (w *writers) check(t *testing.T, s store.Store) {
	t.Helper()
	close(w.stop)
	w.ended.Wait()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for i, acked := range w.acked {
		reply, err := s.Read(ctx, store.KindValue, fmt.Sprint("g/", i))
		if err != nil || len(reply.Docs) != 1 {
			t.Fatalf("document %d: %+v, %v", i, reply, err)
		}
		if got := reply.Docs[0].Count; acked == 0 || got < acked || got > w.tried[i] {
			t.Errorf("document %d is at %d; %d was acknowledged and %d tried", i, got, acked, w.tried[i])
		}
	}
}

// wantNotified waits until a watch names a group, or that everything is to be looked at.
func wantNotified(t *testing.T, notes <-chan store.Notification, id string) {
	t.Helper()
	late := time.After(patience)
	for {
		select {
		case n, ok := <-notes:
			if !ok {
				t.Fatal("the watch has ended")
			}
			if n.Resync || n.ID == id {
				return
			}
		case <-late:
			t.Fatalf("no notification of %s within %v", id, patience)
		}
	}
}

// A server that is killed with kill -9 and started again has what was acknowledged. The same client goes on, and so do
// its watches.
func TestKilled(t *testing.T) {
	server := testservers.Start(t, testservers.KindPostgres)
	s := openBrief(t, server.Database())
	notes, err := s.Watch(t.Context(), store.Interest{})
	if err != nil {
		t.Fatal(err)
	}
	<-notes // the first Resync
	w := write(t, s)
	for range 3 {
		until(t, s, increment("g"))
		server.Kill()
		if out := one(t, s, increment("lost")); out.Status != store.Unknown {
			t.Fatalf("without a server: %+v", out)
		}
		server.Start()
	}
	until(t, s, increment("g"))
	w.check(t, s)
	if got := count(t, s, "g"); got < 4 {
		t.Errorf("counted %d, want 4 at least", got)
	}
	for len(notes) > 0 {
		<-notes
	}
	until(t, s, increment("again"))
	wantNotified(t, notes, "again")
}

// While a server is frozen calls end in time, as unavailable. Its connections are few before, and are not more
// afterwards.
func TestFrozen(t *testing.T) {
	server := testservers.Start(t, testservers.KindPostgres)
	uri := server.Database()
	link := server.Link()
	s := openBrief(t, server.Via(link, uri))
	w := write(t, s)
	until(t, s, increment("g"))
	server.Freeze()
	most, sampled := atomic.Int64{}, sync.WaitGroup{}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	sampled.Go(func() {
		for ctx.Err() == nil {
			most.Store(max(most.Load(), int64(link.Clients())))
			time.Sleep(time.Millisecond)
		}
	})
	for range 4 {
		began := time.Now()
		if out := one(t, s, increment("g")); out.Status != store.Unknown {
			t.Errorf("of a frozen server: %+v", out)
		}
		if took := time.Since(began); took > 3*brief {
			t.Errorf("a call took %v, its context %v", took, brief)
		}
	}
	cancel()
	sampled.Wait()
	if n := most.Load(); n > postgres.MaxCalls+2 {
		t.Errorf("%d connections at once, want %d: for calls, one that listens, one that asks", n, postgres.MaxCalls+2)
	}
	server.Thaw()
	until(t, s, increment("g"))
	w.check(t, s)
	wantFew(t, uri)
}

// wantFew waits until a client has no more connections than it may.
func wantFew(t *testing.T, uri string) {
	t.Helper()
	var n int64
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
		var err error
		n, err = postgres.Value(t.Context(), uri,
			`SELECT count(*) FROM pg_stat_activity WHERE application_name = 'shardctl' AND datname = current_database()`)
		if err != nil {
			t.Fatal(err)
		}
		if n <= postgres.MaxCalls+1 {
			return
		}
	}
	t.Errorf("%d connections, want %d at most", n, postgres.MaxCalls+1)
}

// A network that breaks or swallows is a server that is away, and costs nothing that was acknowledged.
func TestNetwork(t *testing.T) {
	server := testservers.Shared(t, testservers.KindPostgres)
	link := server.Link()
	uri := server.Database()
	s := openBrief(t, server.Via(link, uri))
	w := write(t, s)
	for i := range 6 {
		until(t, s, increment("g"))
		if i%2 == 0 {
			link.Cut()
			continue
		}
		link.Block()
		if out := one(t, s, increment("g")); out.Status != store.Unknown {
			t.Errorf("through nothing: %+v", out)
		}
		link.Unblock()
	}
	until(t, s, increment("g"))
	w.check(t, s)
	wantFew(t, uri)
}

// largeBatch replaces documents; together they are longer than what a network passes on at once.
func largeBatch(round int64) []store.Change {
	changes := make([]store.Change, store.MaxBatch)
	for i := range changes {
		changes[i] = store.Change{IfRev: round, Doc: store.Doc{
			Kind: store.KindValue, ID: fmt.Sprintf("g/%03d", i), Rev: round + 1, Body: bytes.Repeat([]byte("x"), 2000),
			WriterID: store.WriterID{Session: "large", Seq: round},
		}}
	}
	return changes
}

// A server that got one half of a batch has locked the rows of that half. Who waits for one of them does not hold
// others for as long: those who want only these go on.
func TestHalfBatch(t *testing.T) {
	server := testservers.Shared(t, testservers.KindPostgres)
	uri := server.Database()
	link := server.Link()
	hung, waits, free := openBrief(t, server.Via(link, uri)), openBrief(t, uri), openBrief(t, uri)
	const rounds = 3 // until the connections have prepared what is sent
	for round := range int64(rounds) {
		ends(t, hung, patience, store.Applied, largeBatch(round)...)
	}
	var half sync.Once
	link.Look(func(sent []byte) {
		if len(sent) > 16<<10 {
			half.Do(link.Block)
		}
	})
	ends(t, hung, brief, store.Unknown, largeBatch(rounds)...)
	replace := largeBatch(rounds)[0]
	replace.Doc.WriterID.Session = "other"
	var other sync.WaitGroup
	other.Go(func() { ends(t, waits, 2*patience, store.Applied, increment("both"), replace) })
	await(t, uri, `SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()`)
	ends(t, free, patience, store.Applied, increment("both"))
	link.Close() // the client of the half is lost
	other.Wait()
}

// ends applies changes that all end in one way.
func ends(t *testing.T, s store.Store, within time.Duration, want store.Status, changes ...store.Change) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	outs, err := s.Apply(ctx, changes...)
	if err != nil {
		t.Error(err)
	}
	for i, out := range outs {
		if out.Status != want {
			t.Errorf("change %d of %d: %+v, want status %d", i, len(outs), out, want)
			return
		}
	}
}
