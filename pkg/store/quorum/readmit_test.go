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
	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/memory"
	"github.com/shardctl/shardctl/pkg/store/quorum"
)

// A server that lost its disk does not count, although it answers: what only it and another one had accepted is not
// forgotten. Re-admitted, it makes up for one that is away.
func TestDiskLost(t *testing.T) {
	t.Parallel()
	m := newMemory(3)
	s := mustOpen(t, m)
	m.leave(2)
	for i := range int64(3) {
		if out := apply(t, s, put(fmt.Sprint("g/", i), 0, 1, i)); out.Status != driver.Applied {
			t.Fatalf("%+v", out)
		}
	}
	increment := driver.Change{Op: driver.Increment, Doc: driver.Doc{Kind: driver.KindGroup, ID: "g"}}
	apply(t, s, increment)
	m.back(2)
	m.wipe()
	other := mustOpen(t, m) // with servers 1 and 2
	wantRev(t, other, "g/0", 1)
	m.leave(1)
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if reply, err := other.Read(ctx, driver.KindLock, "g/0"); err == nil {
		t.Fatalf("the empty server counts: %+v", reply.Docs)
	}
	m.back(1)
	if err := other.Readmit(t.Context(), 0, nil); err != nil {
		t.Fatal(err)
	}
	if err := other.Readmit(t.Context(), 1, nil); !errors.Is(err, driver.ErrInvalid) {
		t.Errorf("a server that lost nothing is re-admitted: %v", err)
	}
	fresh := mustOpen(t, m)
	eventually(t, func() error { return allCount(fresh) })
	m.leave(1)
	for i := range int64(3) {
		id := fmt.Sprint("g/", i)
		wantRev(t, fresh, id, 1)
		if out := apply(t, fresh, put(id, 1, 2, 10+i)); out.Status != driver.Applied {
			t.Fatalf("write with the re-admitted server: %+v", out)
		}
	}
	if out := apply(t, fresh, put("g/new", 0, 1, 20)); out.Status != driver.Applied {
		t.Fatalf("creation with the re-admitted server: %+v", out)
	}
	reply, err := fresh.Read(t.Context(), driver.KindGroup, "g")
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
	if out := apply(t, m.servers[0], put("g/a", 0, 1, 1)); out.Status != driver.Applied {
		t.Fatalf("%+v", out)
	}
	other := mustOpen(t, m)
	if err := other.Readmit(t.Context(), 0, nil); !errors.Is(err, driver.ErrInvalid) ||
		!strings.Contains(err.Error(), "must be empty") {
		t.Fatalf("%v, want one that says it must be empty", err)
	}
	if out := apply(t, m.servers[0],
		driver.Change{Op: driver.Delete, IfRev: 1, Doc: put("g/a", 0, 1, 2).Doc}); out.Status != driver.Applied {
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
		if out := apply(t, m.servers[0], quorum.EmptyRecord(driver.KindLock, id)); out.Status != driver.Applied {
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
	if out := apply(t, other, put("g/unknown", 0, 1, 2)); out.Status != driver.Applied {
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
	record := func() driver.Doc {
		t.Helper()
		reply, err := m.servers[0].Read(t.Context(), driver.KindLock, "g/a")
		if err != nil || len(reply.Docs) != 1 {
			t.Fatalf("%+v, %v", reply.Docs, err)
		}
		return reply.Docs[0]
	}
	var was int64
	for range 5 { // by promises alone: revisions of the document stay
		d := record()
		was = d.Rev + 1
		changed := driver.Change{IfRev: d.Rev, Doc: d}
		changed.Doc.Rev = was
		changed.Doc.WriterID.Seq = was
		if out := apply(t, m.servers[0], changed); out.Status != driver.Applied {
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
		for _, kind := range driver.Kinds() {
			reply, err := s.List(context.Background(), kind, driver.Query{})
			if err != nil {
				panic(err)
			}
			for _, d := range reply.Docs {
				if _, err := s.Apply(context.Background(),
					driver.Change{Op: driver.Delete, IfRev: d.Rev, Doc: d}); err != nil {
					panic(err)
				}
			}
		}
	}
}

// named is a client of a store that knows it by its name: where that leads to another one, all calls are refused.
type named struct {
	driver.Store

	opened int64
	there  *atomic.Int64
}

func (n named) other() error {
	if n.there.Load() != n.opened {
		return driver.Other("opened", "found")
	}
	return nil
}

func (n named) Read(ctx context.Context, kind driver.Kind, ids ...string) (driver.Reply, error) {
	if err := n.other(); err != nil {
		return driver.Reply{}, err
	}
	return n.Store.Read(ctx, kind, ids...)
}

func (n named) List(ctx context.Context, kind driver.Kind, q driver.Query) (driver.Reply, error) {
	if err := n.other(); err != nil {
		return driver.Reply{}, err
	}
	return n.Store.List(ctx, kind, q)
}

func (n named) Apply(ctx context.Context, changes ...driver.Change) ([]driver.Outcome, error) {
	if err := n.other(); err != nil {
		return driver.AllUnknown(len(changes), err), nil
	}
	return n.Store.Apply(ctx, changes...)
}

// A server whose database was made anew is another store to those who were there before. They open it again, and count
// it once it is re-admitted.
func TestServerThatWasMadeAnew(t *testing.T) {
	t.Parallel()
	m := newMemory(3)
	o := m.options()
	there := &atomic.Int64{}
	o.Servers[0].Open = func(context.Context) (driver.Store, error) {
		return named{m.client(0), there.Load(), there}, nil //nolint:contextcheck // it has none
	}
	s, err := quorum.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close(context.WithoutCancel(t.Context())) })
	eventually(t, func() error { return allCount(s) })
	there.Add(1)
	m.wipe(0)
	rev := int64(0)
	write := func() {
		t.Helper()
		if out := apply(t, s, put("g/a", rev, rev+1, rev)); out.Status != driver.Applied {
			t.Fatalf("%+v", out)
		}
		rev++
	}
	write()
	if err := mustOpen(t, m).Readmit(t.Context(), 0, nil); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() error {
		write()
		return allCount(s)
	})
	m.leave(1)
	write()
}

// allCount is nil when every server counts.
func allCount(s driver.Store) error {
	for _, p := range store.Problems(s) {
		return errors.New(p.Message)
	}
	return nil
}

// all is nil when every server has a lock's record.
func (m *memServers) all(t *testing.T, id string) error {
	t.Helper()
	for i, s := range m.servers {
		reply, err := s.Read(t.Context(), driver.KindLock, id)
		if err != nil || len(reply.Docs) == 0 {
			return fmt.Errorf("server %d has no %s, error %v", i+1, id, err) //nolint:errorlint // for people
		}
	}
	return nil
}

// empty is nil when no server has a document.
func (m *memServers) empty(t *testing.T, kind driver.Kind, id string) error {
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

// Two re-admissions of one server at once: what was acknowledged since one of them has ended stays, however slow the
// other one is.
func TestTwoReadmissions(t *testing.T) {
	t.Parallel()
	m := newMemory(3)
	s := mustOpen(t, m)
	eventually(t, func() error { return allCount(s) })
	if out := apply(t, s, put("g/a", 0, 10, 1)); out.Status != driver.Applied {
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
		accepts := slices.ContainsFunc(call.Changes, func(c driver.Change) bool { return c.Doc.ID == "g/a" })
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
	if out := apply(t, fresh, put("g/a", 10, 20, 2)); out.Status != driver.Applied {
		t.Fatal(out)
	}
	close(goOn)
	if err := <-ended; !errors.Is(err, driver.ErrUnavailable) {
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
		if out := apply(t, s, put("g/a", i, i+1, i)); out.Status != driver.Applied {
			t.Fatal(out)
		}
	}
	eventually(t, func() error { return m.all(t, "g/a") })
	m.wipe(0)
	if out := apply(t, s, put("g/a", 5, 6, 5)); out.Status != driver.Applied {
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

// A tombstone goes after an hour, when all servers hold it. What is created afterwards begins above the floor.
func TestTombstonesAreRemoved(t *testing.T) {
	t.Parallel()
	var ahead atomic.Int64
	m := blank(3)
	for i := range m.servers {
		m.servers[i] = memory.New(memory.WithClock(func() time.Time {
			return time.Now().Add(time.Duration(ahead.Load()))
		}))
	}
	if _, err := m.init(t.Context()); err != nil {
		t.Fatal(err)
	}
	s := mustOpen(t, m)
	eventually(t, func() error { return allCount(s) })
	apply(t, s, put("g/a", 0, 5, 1))
	gone := put("g/a", 5, 5, 2)
	gone.Op = driver.Delete
	if out := apply(t, s, gone); out.Status != driver.Applied {
		t.Fatalf("%+v", out)
	}
	if out := apply(t, s, put("g/a", 0, 5, 3)); out.Status != driver.Overtaken {
		t.Fatalf("a creation at the revision that was deleted: %+v", out)
	}
	remove := func() int {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second) // a server that is away keeps them
		defer cancel()
		n, _ := s.RemoveTombstones(ctx, driver.KindLock)
		return n
	}
	if n := remove(); n != 0 {
		t.Fatalf("%d removed at once", n)
	}
	ahead.Store(int64(2 * time.Hour))
	m.leave(1)
	if n := remove(); n != 0 {
		t.Fatalf("%d removed while a server is away", n)
	}
	m.back(1)
	eventually(t, func() error {
		remove()
		return m.empty(t, driver.KindLock, "g/a")
	})
	if out := apply(t, s, put("g/a", 0, 6, 4)); out.Status != driver.Applied {
		t.Fatalf("created again: %+v", out)
	}
	wantRev(t, mustOpen(t, m), "g/a", 6)
}
