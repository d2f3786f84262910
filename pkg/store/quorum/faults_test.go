package quorum_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/memory"
	"github.com/shardctl/shardctl/pkg/store/quorum"
)

func mustOpen(t *testing.T, m *memServers) *quorum.Store {
	t.Helper()
	s, err := m.quorum(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close(context.WithoutCancel(t.Context())) })
	return s
}

func put(id string, ifRev, rev int64, writer int64) store.Change {
	return store.Change{IfRev: ifRev, Doc: store.Doc{
		Kind: store.KindLock, ID: id, Rev: rev, WriterID: store.WriterID{Session: "w", Seq: writer},
	}}
}

// What somebody has edited on one server is as if that server did not answer for it. All others are answered for, also
// with a second server away.
func TestEditedRecordIsOneServersAlone(t *testing.T) {
	m := newMemory(3)
	s := mustOpen(t, m)
	eventually(t, func() error { return allCount(s) })
	for i := range int64(5) {
		if out := apply(t, s, put(fmt.Sprint("g/", i), 0, 1, i)); out.Status != store.Applied {
			t.Fatalf("%+v", out)
		}
	}
	edited := 0
	for ; ; edited++ { // the first server that has it: two do, and which ones depends on who was faster
		found, err := m.servers[edited].Read(t.Context(), store.KindLock, "g/2")
		if err != nil {
			t.Fatal(err)
		}
		if len(found.Docs) > 0 {
			break
		}
	}
	if err := spoil(t.Context(), m.servers[edited], store.KindLock, "g/2"); err != nil {
		t.Fatal(err)
	}
	other := mustOpen(t, m) // it remembers no record
	eventually(t, func() error { return allCount(other) })
	list := func(docs, unreadable int) {
		t.Helper()
		found, err := other.List(t.Context(), store.KindLock, store.Query{})
		if err != nil || len(found.Docs) != docs || len(found.Unreadable) != unreadable {
			t.Fatalf("listed %d locks and %+v, %v; want %d and %d", len(found.Docs), found.Unreadable, err, docs,
				unreadable)
		}
	}
	list(5, 0)
	away := (edited + 1) % 3
	m.leave(away)
	list(4, 1)
	if out := apply(t, other, put("g/3", 1, 2, 10)); out.Status != store.Applied {
		t.Fatalf("another lock: %+v", out)
	}
	m.back(away)
	list(5, 0)
	if out := apply(t, other, put("g/2", 1, 2, 11)); out.Status != store.Applied {
		t.Fatalf("the lock itself: %+v", out)
	}
}

func apply(t *testing.T, s store.Store, c store.Change) store.Outcome {
	t.Helper()
	outs, err := s.Apply(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	return outs[0]
}

func wantRev(t *testing.T, s store.Store, id string, rev int64) {
	t.Helper()
	reply, err := s.Read(t.Context(), store.KindLock, id)
	if err != nil || len(reply.Docs) != 1 || reply.Docs[0].Rev != rev {
		t.Fatalf("read %s: %+v, %v; want revision %d", id, reply.Docs, err, rev)
	}
}

// Servers that do not answer do not slow the others down: far less time passes than a request may take.
func TestMinorityAwayIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	m := newMemory(5)
	s := mustOpen(t, m)
	m.leave(0, 4)
	begun := time.Now()
	for i := range int64(50) {
		if out := apply(t, s, put("g/a", i, i+1, i)); out.Status != store.Applied {
			t.Fatalf("write %d: %+v", i, out)
		}
	}
	wantRev(t, s, "g/a", 50)
	if took := time.Since(begun); took > 8*time.Second { // one request may take ten
		t.Errorf("50 writes took %v", took)
	}
}

// Without a majority a write is unknown when its time is over. Nothing is lost when the servers come back.
func TestMajorityAway(t *testing.T) {
	t.Parallel()
	m := newMemory(5)
	s := mustOpen(t, m)
	if out := apply(t, s, put("g/a", 0, 1, 1)); out.Status != store.Applied {
		t.Fatalf("%+v", out)
	}
	m.leave(0, 1, 2)
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	outs, err := s.Apply(ctx, put("g/a", 1, 2, 2))
	if err != nil || outs[0].Status != store.Unknown || !errors.Is(outs[0].Err, store.ErrUnavailable) {
		t.Fatalf("without a majority: %+v, %v", outs, err)
	}
	if _, err := s.Read(ctx, store.KindLock, "g/a"); !errors.Is(err, store.ErrUnavailable) {
		t.Fatalf("read without a majority: %v", err)
	}
	m.back(0, 1, 2)
	if out := apply(t, s, put("g/a", 1, 2, 2)); out.Status != store.Applied { // the same write
		t.Fatalf("repeated: %+v", out)
	}
	wantRev(t, mustOpen(t, m), "g/a", 2)
}

// A server that lost its disk does not count, although it answers: what only it and another one had accepted is not
// forgotten. Re-admitted, it makes up for one that is away.
func TestDiskLost(t *testing.T) {
	t.Parallel()
	m := newMemory(3)
	s := mustOpen(t, m)
	m.leave(2)
	for i := range int64(3) {
		if out := apply(t, s, put(fmt.Sprint("g/", i), 0, 1, i)); out.Status != store.Applied {
			t.Fatalf("%+v", out)
		}
	}
	increment := store.Change{Op: store.Increment, Doc: store.Doc{Kind: store.KindGroup, ID: "g"}}
	apply(t, s, increment)
	m.back(2)
	m.wipe()
	other := mustOpen(t, m) // with servers 1 and 2
	wantRev(t, other, "g/0", 1)
	m.leave(1)
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if reply, err := other.Read(ctx, store.KindLock, "g/0"); err == nil {
		t.Fatalf("the empty server counts: %+v", reply.Docs)
	}
	m.back(1)
	if err := other.Readmit(t.Context(), 0, nil); err != nil {
		t.Fatal(err)
	}
	if err := other.Readmit(t.Context(), 1, nil); !errors.Is(err, store.ErrInvalid) {
		t.Errorf("a server that lost nothing is re-admitted: %v", err)
	}
	fresh := mustOpen(t, m)
	eventually(t, func() error { return allCount(fresh) })
	m.leave(1)
	for i := range int64(3) {
		id := fmt.Sprint("g/", i)
		wantRev(t, fresh, id, 1)
		if out := apply(t, fresh, put(id, 1, 2, 10+i)); out.Status != store.Applied {
			t.Fatalf("write with the re-admitted server: %+v", out)
		}
	}
	if out := apply(t, fresh, put("g/new", 0, 1, 20)); out.Status != store.Applied {
		t.Fatalf("creation with the re-admitted server: %+v", out)
	}
	reply, err := fresh.Read(t.Context(), store.KindGroup, "g")
	if err != nil || len(reply.Docs) != 1 || reply.Docs[0].Count < 1 {
		t.Fatalf("the counter: %+v, %v", reply.Docs, err)
	}
}

// A server that comes back with documents that no re-admission wrote is refused.
func TestServerThatIsNotEmpty(t *testing.T) {
	t.Parallel()
	m := newMemory(3)
	s := mustOpen(t, m)
	apply(t, s, put("g/a", 0, 1, 1))
	m.wipe()
	if out := apply(t, m.servers[0], put("g/a", 0, 1, 1)); out.Status != store.Applied {
		t.Fatalf("%+v", out)
	}
	other := mustOpen(t, m)
	if err := other.Readmit(t.Context(), 0, nil); !errors.Is(err, store.ErrInvalid) ||
		!strings.Contains(err.Error(), "must be empty") {
		t.Fatalf("%v, want one that says it must be empty", err)
	}
	if out := apply(t, m.servers[0],
		store.Change{Op: store.Delete, IfRev: 1, Doc: put("g/a", 0, 1, 2).Doc}); out.Status != store.Applied {
		t.Fatalf("%+v", out)
	}
	if err := other.Readmit(t.Context(), 0, nil); err != nil {
		t.Fatal(err)
	}
}

// Replicas that have not noticed yet leave records on the empty server. They do not stand in the way.
func TestReadmissionAmongEmptyRecords(t *testing.T) {
	t.Parallel()
	m := newMemory(3)
	s := mustOpen(t, m)
	apply(t, s, put("g/a", 0, 1, 1))
	m.wipe()
	for _, id := range []string{"g/a", "g/unknown"} {
		if out := apply(t, m.servers[0], quorum.EmptyRecord(store.KindLock, id)); out.Status != store.Applied {
			t.Fatalf("%+v", out)
		}
	}
	other := mustOpen(t, m)
	if err := other.Readmit(t.Context(), 0, nil); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() error { return allCount(other) })
	m.leave(1)
	wantRev(t, other, "g/a", 1)
	if out := apply(t, other, put("g/unknown", 0, 1, 2)); out.Status != store.Applied {
		t.Fatalf("creation over the empty record: %+v", out)
	}
}

// What a replica remembers of the lost disk fits no record of the re-admitted server: it would overwrite what it has
// never seen.
func TestReadmittedRecordsHaveNewRevisions(t *testing.T) {
	t.Parallel()
	m := newMemory(3)
	s := mustOpen(t, m)
	m.leave(2) // so that the first server takes part
	apply(t, s, put("g/a", 0, 1, 1))
	m.back(2)
	record := func() store.Doc {
		t.Helper()
		reply, err := m.servers[0].Read(t.Context(), store.KindLock, "g/a")
		if err != nil || len(reply.Docs) != 1 {
			t.Fatalf("%+v, %v", reply.Docs, err)
		}
		return reply.Docs[0]
	}
	var was int64
	for range 5 { // by promises alone: revisions of the document stay
		d := record()
		was = d.Rev + 1
		changed := store.Change{IfRev: d.Rev, Doc: d}
		changed.Doc.Rev = was
		changed.Doc.WriterID.Seq = was
		if out := apply(t, m.servers[0], changed); out.Status != store.Applied {
			t.Fatalf("%+v", out)
		}
	}
	m.wipe()
	other := mustOpen(t, m)
	if err := other.Readmit(t.Context(), 0, nil); err != nil {
		t.Fatal(err)
	}
	if is := record().Rev; is <= was {
		t.Errorf("revision %d, want above %d", is, was)
	}
}

// wipe takes everything from servers, whose clients go on. None: the first one.
func (m *memServers) wipe(servers ...int) {
	if len(servers) == 0 {
		servers = []int{0}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, i := range servers {
		s := m.servers[i]
		for _, kind := range store.Kinds() {
			reply, err := s.List(context.Background(), kind, store.Query{})
			if err != nil {
				panic(err)
			}
			for _, d := range reply.Docs {
				if _, err := s.Apply(context.Background(),
					store.Change{Op: store.Delete, IfRev: d.Rev, Doc: d}); err != nil {
					panic(err)
				}
			}
		}
	}
}

// allCount is nil when every server counts.
func allCount(s store.Store) error {
	for _, p := range store.Problems(s) {
		return errors.New(p.Message)
	}
	return nil
}

// all is nil when every server has a lock's record.
func (m *memServers) all(t *testing.T, id string) error {
	t.Helper()
	for i, s := range m.servers {
		reply, err := s.Read(t.Context(), store.KindLock, id)
		if err != nil || len(reply.Docs) == 0 {
			return fmt.Errorf("server %d has no %s, error %v", i+1, id, err) //nolint:errorlint // for people
		}
	}
	return nil
}

// empty is nil when no server has a document.
func (m *memServers) empty(t *testing.T, kind store.Kind, id string) error {
	t.Helper()
	for i, s := range m.servers {
		reply, err := s.Read(t.Context(), kind, id)
		if err != nil || len(reply.Docs) > 0 {
			return fmt.Errorf("server %d has %v, error %v", i+1, reply.Docs, err) //nolint:errorlint // for people
		}
	}
	return nil
}

func eventually(t *testing.T, check func() error) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); ; {
		err := check()
		if err == nil {
			return
		}
		if time.Now().After(end) {
			t.Fatal(err)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// A document whose ballots were forgotten is changed under ballots that were never used before: two values under one
// would both be taken for the chosen one.
func TestForgottenBallotsAreNotUsedAgain(t *testing.T) {
	t.Parallel()
	m := newMemory(3)
	s := mustOpen(t, m)
	s.KeepDocLocks(8)
	eventually(t, func() error { return allCount(s) })

	// Servers 2 and 3 promise the first ballot. Its acceptance reaches server 1 only.
	var off atomic.Bool
	m.mu.Lock()
	for _, i := range []int{1, 2} {
		for _, c := range m.clients[i] {
			var away atomic.Bool
			c.Fault(func(call memory.Call) memory.Verdict {
				accepts := slices.ContainsFunc(call.Changes, func(c store.Change) bool {
					return c.Doc.ID == "g/a" && strings.Fields(c.Doc.WriterID.Session)[3] != "-"
				})
				if accepts {
					away.Store(true)
				}
				if away.Load() && !off.Load() {
					return memory.Verdict{Fault: memory.LoseRequest}
				}
				return memory.Verdict{}
			})
		}
	}
	m.mu.Unlock()
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	outs, err := s.Apply(ctx, put("g/a", 0, 10, 1))
	cancel()
	if err != nil || outs[0].Status != store.Unknown {
		t.Fatalf("%+v, %v", outs, err)
	}
	off.Store(true)
	for i := range int64(100) { // until it has forgotten g/a
		apply(t, s, put(fmt.Sprint("g/other", i), 0, 1, 100+i))
	}
	m.leave(0)
	if out := apply(t, s, put("g/a", 0, 20, 2)); out.Status != store.Applied {
		t.Fatalf("another creation: %+v", out)
	}
	m.back(0)
	for away := range 3 {
		other := mustOpen(t, m)
		m.leave(away)
		wantRev(t, other, "g/a", 20)
		m.back(away)
	}
}

// Two re-admissions of one server at once: what was acknowledged since one of them has ended stays, however slow the
// other one is.
func TestTwoReadmissions(t *testing.T) {
	t.Parallel()
	m := newMemory(3)
	s := mustOpen(t, m)
	eventually(t, func() error { return allCount(s) })
	if out := apply(t, s, put("g/a", 0, 10, 1)); out.Status != store.Applied {
		t.Fatal(out)
	}
	eventually(t, func() error { return m.all(t, "g/a") })
	m.wipe(0)

	slow := mustOpen(t, m)
	reached, goOn := make(chan struct{}), make(chan struct{})
	var once sync.Once
	m.mu.Lock()
	own := m.clients[0][len(m.clients[0])-1]
	m.mu.Unlock()
	own.Fault(func(call memory.Call) memory.Verdict {
		accepts := slices.ContainsFunc(call.Changes, func(c store.Change) bool { return c.Doc.ID == "g/a" })
		if accepts {
			once.Do(func() {
				close(reached)
				<-goOn
			})
		}
		return memory.Verdict{}
	})
	ended := make(chan error, 1)
	go func() { ended <- slow.Readmit(context.WithoutCancel(t.Context()), 0, nil) }()
	<-reached
	other := mustOpen(t, m)
	if err := other.Readmit(t.Context(), 0, nil); err != nil {
		t.Fatal(err)
	}
	fresh := mustOpen(t, m)
	eventually(t, func() error { return allCount(fresh) })
	m.leave(1) // servers 1 and 3 decide
	if out := apply(t, fresh, put("g/a", 10, 20, 2)); out.Status != store.Applied {
		t.Fatal(out)
	}
	close(goOn)
	if err := <-ended; !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("the slow one ends with %v", err)
	}
	m.back(1)
	for _, away := range []int{2, 1, 0} {
		one := mustOpen(t, m)
		m.leave(away)
		wantRev(t, one, "g/a", 20)
		m.back(away)
	}
}

// A replica writes to a server whose disk it does not know to be lost. That does not stand in the way.
func TestReadmissionAfterAHeartbeat(t *testing.T) {
	t.Parallel()
	m := newMemory(3)
	s := mustOpen(t, m)
	eventually(t, func() error { return allCount(s) })
	for i := range int64(5) {
		if out := apply(t, s, put("g/a", i, i+1, i)); out.Status != store.Applied {
			t.Fatal(out)
		}
	}
	eventually(t, func() error { return m.all(t, "g/a") })
	m.wipe(0)
	if out := apply(t, s, put("g/a", 5, 6, 5)); out.Status != store.Applied {
		t.Fatal(out)
	}
	other := mustOpen(t, m)
	if err := other.Readmit(t.Context(), 0, nil); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() error { return errors.Join(allCount(other), allCount(s)) })
	m.leave(1)
	wantRev(t, other, "g/a", 6)
}
