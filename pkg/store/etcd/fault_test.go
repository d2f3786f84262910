package etcd_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/etcd"
	"github.com/shardctl/shardctl/pkg/store/storetest"
	"github.com/shardctl/shardctl/test/testservers"
)

// brief is the time-out of stores that meet faults: a sixth of a lease of 6 s.
const brief = time.Second

// generous bounds the wait for what has to happen, on a busy machine.
const generous = 60 * time.Second

// On three members reads go to one and writes through another, and notifications come from a third.
func TestStoreOnThreeMembers(t *testing.T) {
	cluster := testservers.StartEtcdCluster(t)
	storetest.Run(
		t, func(t *testing.T) storetest.Database {
			t.Helper()
			return database(t, cluster.Database())
		},
		"repeated", "overtaken", "batch of outcomes", "racing writers", "racing creators", "counter", "linearizable",
		"increment", "unknown outcomes", "query while writing", "watch", "watch many", "set-up at once",
	)
}

// counter raises one document again and again, as a heartbeat does, and remembers what was acknowledged.
type counter struct {
	t   *testing.T
	s   store.Store
	rev int64
}

// raise repeats one write until it is acknowledged, and returns how long that took.
func (c *counter) raise() time.Duration {
	c.t.Helper()
	change := create("g/heartbeat")
	change.IfRev, change.Doc.Rev, change.Doc.WriterID.Seq = c.rev, c.rev+1, c.rev+1
	change.Doc.Session = "owner" // it is not free: no one is notified
	began := time.Now()
	for time.Since(began) < generous {
		ctx, cancel := context.WithTimeout(c.t.Context(), brief)
		out := apply(ctx, c.t, c.s, change)
		cancel()
		switch out.Status {
		case store.Applied:
			c.rev++
			return time.Since(began)
		case store.Unknown:
			if !errors.Is(out.Err, store.ErrUnavailable) {
				c.t.Fatalf("unknown without ErrUnavailable: %v", out.Err)
			}
		default:
			c.t.Fatalf("the only writer is refused at revision %d: %+v", c.rev, out)
		}
	}
	c.t.Fatalf("no write was acknowledged within %v", generous)
	return 0
}

// notified waits until a counter that is raised now is notified of, or a Resync comes.
func notified(t *testing.T, s store.Store, notes <-chan store.Notification, group string) (resync bool) {
	t.Helper()
	raise := store.Change{Op: store.Increment, Doc: store.Doc{Kind: store.KindGroup, ID: group}}
	for end := time.Now().Add(generous); ; {
		ctx, cancel := context.WithTimeout(t.Context(), brief)
		out := apply(ctx, t, s, raise)
		cancel()
		if out.Status == store.Applied {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("raise %s: %+v", group, out)
		}
	}
	late := time.After(generous)
	for {
		select {
		case n, ok := <-notes:
			if !ok {
				t.Fatal("the watch ended")
			}
			if n.Resync || n.Kind == store.KindGroup && n.ID == group {
				return n.Resync
			}
		case <-late:
			t.Fatalf("no notification of %s within %v", group, generous)
		}
	}
}

// watching begins to watch and takes the first Resync.
func watching(t *testing.T, s store.Store) <-chan store.Notification {
	t.Helper()
	notes, err := s.Watch(t.Context(), store.Interest{})
	if err != nil {
		t.Fatal(err)
	}
	if first := <-notes; !first.Resync {
		t.Fatalf("first notification %+v", first)
	}
	return notes
}

// A member that leads dies, and is frozen. Writes go on with the others, none is lost, and watches go on without one
// Resync.
func TestLeaderLost(t *testing.T) {
	for name, lose := range map[string]func(*testservers.Server) (back func()){
		"killed": func(m *testservers.Server) func() { m.Kill(); return m.Start },
		"frozen": func(m *testservers.Server) func() { m.Freeze(); return m.Thaw },
	} {
		t.Run(name, func(t *testing.T) {
			cluster := testservers.StartEtcdCluster(t)
			uri := cluster.Database()
			options := etcd.Options{URI: uri, Timeout: brief}
			s, watcher := open(t, options), open(t, options)
			notes := watching(t, watcher)
			c := &counter{t: t, s: s}
			c.raise()
			leader, err := cluster.Leader(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			back := lose(leader)
			t.Logf("the first write after it was acknowledged after %v", c.raise())
			for range 20 {
				c.raise()
			}
			if notified(t, s, notes, "after") {
				t.Error("the watch lost its place")
			}
			back()
			c.raise()
			if notified(t, s, notes, "back") {
				t.Error("the watch lost its place")
			}
			wantRev(t, s, c.rev)
			wantRev(t, watcher, c.rev)
		})
	}
}

func wantRev(t *testing.T, s store.Store, rev int64) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), generous)
	defer cancel()
	reply, err := s.Read(ctx, store.KindLock, "g/heartbeat")
	if err != nil || len(reply.Docs) != 1 || reply.Docs[0].Rev != rev {
		t.Errorf("read %+v, %v; want revision %d", reply.Docs, err, rev)
	}
}

// Without a majority nothing is answered, in time, and nothing that was acknowledged is lost when it is back.
func TestMajorityLost(t *testing.T) {
	cluster := testservers.StartEtcdCluster(t)
	s := open(t, etcd.Options{URI: cluster.Database(), Timeout: brief})
	c := &counter{t: t, s: s}
	for range 10 {
		c.raise()
	}
	cluster.Members[0].Kill()
	cluster.Members[1].Freeze()
	for range 3 {
		ctx, cancel := context.WithTimeout(t.Context(), brief)
		change := create("g/lost")
		began := time.Now()
		if out := apply(ctx, t, s, change); out.Status != store.Unknown || !errors.Is(out.Err, store.ErrUnavailable) {
			t.Errorf("write without a majority: %+v", out)
		}
		if _, err := s.Read(ctx, store.KindLock, "g/heartbeat"); !errors.Is(err, store.ErrUnavailable) {
			t.Errorf("read without a majority: %v", err)
		}
		cancel()
		if took := time.Since(began); took > generous/2 {
			t.Errorf("calls of %v took %v", brief, took)
		}
	}
	cluster.Members[1].Thaw()
	cluster.Members[0].Start()
	c.raise()
	wantRev(t, s, c.rev)
}

// A network that blocks, and one that breaks: the answer is lost, a repeat finds its own write or is applied.
func TestCutOff(t *testing.T) {
	server := testservers.Shared(t, testservers.KindEtcd)
	uri := server.Database()
	link := server.Link()
	s := open(t, etcd.Options{URI: server.Via(link, uri), Timeout: brief})
	notes := watching(t, s)
	c := &counter{t: t, s: s}
	c.raise()
	for range 3 {
		link.Block()
		ctx, cancel := context.WithTimeout(t.Context(), brief/2)
		if _, err := s.Read(ctx, store.KindLock, "g/heartbeat"); !errors.Is(err, store.ErrUnavailable) {
			t.Errorf("read through a blocked network: %v", err)
		}
		cancel()
		link.Unblock()
		c.raise()
		link.Cut()
		c.raise()
	}
	wantRev(t, s, c.rev)
	notified(t, s, notes, "after")
}

// With a short lease all calls are shorter than what raises suspicion by default. They leave a member that does not
// answer all the same, whichever of the two it is.
func TestSilentMemberIsLeftWithAShortLease(t *testing.T) {
	const timeout = time.Second / 6
	server := testservers.Shared(t, testservers.KindEtcd)
	first, second := server.Link(), server.Link()
	uri := strings.Replace(server.Via(first, server.Database()), first.Addr, first.Addr+","+second.Addr, 1)
	opening, cancel := context.WithTimeout(t.Context(), generous)
	defer cancel()
	s, err := etcd.Open(opening, etcd.Options{URI: uri, Timeout: timeout})
	for errors.Is(err, store.ErrUnavailable) && opening.Err() == nil { // a busy machine
		s, err = etcd.Open(opening, etcd.Options{URI: uri, Timeout: timeout})
	}
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close(t.Context()) }()
	for _, link := range []*testservers.Proxy{first, second} {
		link.Block()
		read := errors.New("not tried")
		for end := time.Now().Add(generous); read != nil && time.Now().Before(end); {
			ctx, cancel := context.WithTimeout(t.Context(), timeout)
			_, read = s.Read(ctx, store.KindLock, "g/heartbeat")
			cancel()
		}
		if read != nil {
			t.Errorf("the silent member is used for %v: %v", generous, read)
		}
		link.Unblock()
	}
}

// What a watch has missed and etcd has compacted, a Resync stands for.
func TestCompactedWhileCutOff(t *testing.T) {
	server := testservers.Shared(t, testservers.KindEtcd)
	uri := server.Database()
	link := server.Link()
	cut := open(t, etcd.Options{URI: server.Via(link, uri), Timeout: patient})
	beside := open(t, etcd.Options{URI: uri})
	notes := watching(t, cut)
	link.Block()
	for range 5 {
		raise := store.Change{Op: store.Increment, Doc: store.Doc{Kind: store.KindGroup, ID: "missed"}}
		if out := apply(t.Context(), t, beside, raise); out.Status != store.Applied {
			t.Fatalf("%+v", out)
		}
	}
	client := raw(t, uri)
	now, err := client.Get(t.Context(), "any")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.Compact(t.Context(), now.Header.Revision); err != nil {
		t.Fatal(err)
	}
	link.Cut()
	link.Unblock()
	select {
	case n, ok := <-notes:
		if !ok || !n.Resync {
			t.Errorf("got %+v, %t; want a Resync", n, ok)
		}
	case <-time.After(generous):
		t.Fatalf("no Resync within %v", generous)
	}
	notified(t, beside, notes, "after")
}

// A watch that cannot be opened leaves nothing behind. Electors try again every few seconds while etcd is away.
func TestWatchesThatFailEnd(t *testing.T) {
	server := testservers.Start(t, testservers.KindEtcd)
	s := open(t, etcd.Options{URI: server.Database(), Timeout: brief})
	server.Freeze()
	defer server.Thaw()
	before := runtime.NumGoroutine()
	const times = 10
	for range times {
		ctx, cancel := context.WithTimeout(t.Context(), brief/5)
		if _, err := s.Watch(ctx, store.Interest{}); !errors.Is(err, store.ErrUnavailable) {
			t.Errorf("watch of a member that stands still: %v", err)
		}
		cancel()
	}
	end := time.Now().Add(patient)
	for runtime.NumGoroutine() >= before+times {
		if time.Now().After(end) {
			t.Fatalf("%d goroutines after %d attempts to watch, %d before", runtime.NumGoroutine(), times, before)
		}
		time.Sleep(10 * time.Millisecond)
	}
}
