package etcd_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/etcd"
	"github.com/shardctl/shardctl/pkg/store/storetest"
	"github.com/shardctl/shardctl/test/suites"
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

// calls are those of clients that meet faults.
var calls = storetest.Faults{Call: brief, Patience: generous}

// notified waits until a counter that is raised now is notified of, or a Resync comes.
func notified(t *testing.T, s driver.Store, notes <-chan driver.Notification, group string) {
	t.Helper()
	calls.Until(t, s, driver.Change{Op: driver.Increment, Doc: driver.Doc{Kind: driver.KindGroup, ID: group}})
	calls.Notified(t, notes, group)
}

// watching begins to watch and takes the first Resync.
func watching(t *testing.T, s driver.Store) <-chan driver.Notification {
	t.Helper()
	notes, err := s.Watch(t.Context(), driver.Interest{})
	if err != nil {
		t.Fatal(err)
	}
	if first := <-notes; !first.Resync {
		t.Fatalf("first notification %+v", first)
	}
	return notes
}

// through has faults act on clients of a URI.
func through(uri string) storetest.Faults {
	f := calls
	f.Open = func(t *testing.T) driver.Store {
		t.Helper()
		return storetest.Open(t, driver.Config{URI: uri, Timeout: brief})
	}
	return f
}

// A member that leads dies, and is frozen. Writes go on with the others, none is lost, and watches go on without one
// Resync. Without a majority nothing is answered.
func TestMembersLost(t *testing.T) {
	suites.NeedWhole(t, suites.Stores, "real servers")
	cluster := testservers.StartEtcdCluster(t)
	var leader *testservers.Server
	lead := func() {
		t.Helper()
		var err error
		if leader, err = cluster.Leader(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	one, two := cluster.Members[0], cluster.Members[1]
	through(cluster.Database()).Run(t,
		storetest.Fault{
			Name: "leader killed", Begin: func() { lead(); leader.Kill() }, End: func() { leader.Start() }, Seamless: true,
		},
		storetest.Fault{
			Name: "leader frozen", Begin: func() { lead(); leader.Freeze() }, End: func() { leader.Thaw() }, Seamless: true,
		},
	)
	lost := through(cluster.Database())
	lost.WatchEnds = true // a member that has had no leader for some time ends it
	lost.Run(t, storetest.Fault{
		Name: "no majority", Begin: func() { one.Kill(); two.Freeze() }, End: func() { two.Thaw(); one.Start() },
		Silent: true,
	})
}

// A network that blocks, and one that breaks: the answer is lost, a repeat finds its own write or is applied.
func TestCutOff(t *testing.T) {
	suites.NeedWhole(t, suites.Stores, "real servers")
	server := testservers.Shared(t, testservers.KindEtcd)
	link := server.Link()
	blocked := storetest.Fault{Name: "blocked", Begin: link.Block, End: link.Unblock, Silent: true}
	cut := storetest.Fault{Name: "cut", Begin: link.Cut}
	through(server.Via(link, server.Database())).Run(t, blocked, cut, blocked, cut, blocked, cut)
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
	for errors.Is(err, driver.ErrUnavailable) && opening.Err() == nil { // a busy machine
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
			_, read = s.Read(ctx, driver.KindLock, "g/heartbeat")
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
	cut := storetest.Open(t, driver.Config{URI: server.Via(link, uri)})
	beside := storetest.Open(t, driver.Config{URI: uri})
	notes := watching(t, cut)
	link.Block()
	for range 5 {
		raise := driver.Change{Op: driver.Increment, Doc: driver.Doc{Kind: driver.KindGroup, ID: "missed"}}
		if out := apply(t.Context(), t, beside, raise); out.Status != driver.Applied {
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
	s := storetest.Open(t, driver.Config{URI: server.Database(), Timeout: brief})
	server.Freeze()
	defer server.Thaw()
	before := runtime.NumGoroutine()
	const times = 10
	for range times {
		ctx, cancel := context.WithTimeout(t.Context(), brief/5)
		if _, err := s.Watch(ctx, driver.Interest{}); !errors.Is(err, driver.ErrUnavailable) {
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
