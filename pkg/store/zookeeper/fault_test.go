package zookeeper_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/storetest"
	"github.com/shardctl/shardctl/pkg/store/zookeeper"
	"github.com/shardctl/shardctl/test/suites"
	"github.com/shardctl/shardctl/test/testservers"
)

// brief is a call's time in these tests, as of a lease of 8 s.
const brief = 1300 * time.Millisecond

// at is a URI that names one server alone.
func at(ensemble *testservers.ZooKeepers, uri, addr string) string {
	return strings.Replace(uri, ensemble.Addrs(), addr, 1)
}

// await tries until f is true, and fails the test after patient.
func await(t *testing.T, what string, f func() bool) {
	t.Helper()
	for end := time.Now().Add(patient); !f(); {
		if time.Now().After(end) {
			t.Fatalf("not within %v: %s", patient, what)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// elections bounds the wait for a new leader. An election that fails costs ZooKeeper initLimit, here 8 s, and the next
// may fail too while a server fetches data.
const elections = time.Minute

// through has faults act on clients of a URI.
func through(uri string) storetest.Faults {
	return storetest.Faults{Call: brief, Patience: elections, Open: func(t *testing.T) driver.Store {
		t.Helper()
		return storetest.Open(t, driver.Config{URI: uri})
	}}
}

// A leader that dies, or stands still, costs an election. Without a majority nothing is answered.
func TestEnsembleLosesServers(t *testing.T) {
	suites.NeedWhole(t, suites.Stores, "real servers")
	ensemble := testservers.StartZooKeepers(t, 3)
	var one, other *testservers.Server
	leader := func() { one = ensemble.Leader() }
	all := func(do func(*testservers.Server)) {
		for _, s := range ensemble.Servers {
			do(s)
		}
	}
	through(ensemble.Database()).Run(t,
		storetest.Fault{
			Name: "leader killed", Begin: func() { leader(); one.Kill() }, End: func() { one.Start() },
		},
		storetest.Fault{
			Name: "leader frozen", Begin: func() { leader(); one.Freeze() }, End: func() { one.Thaw() },
		},
		storetest.Fault{
			Name:  "follower frozen",
			Begin: func() { one = ensemble.Others(ensemble.Leader())[0]; one.Freeze() }, End: func() { one.Thaw() },
		},
		storetest.Fault{
			Name: "no majority", Silent: true,
			Begin: func() {
				followers := ensemble.Others(ensemble.Leader())
				one, other = followers[0], followers[1]
				one.Freeze()
				other.Freeze()
			},
			End: func() { one.Thaw(); other.Thaw() },
		},
		storetest.Fault{
			Name: "all killed", Silent: true, Begin: func() { all((*testservers.Server).Kill) },
			End: func() { all((*testservers.Server).Start); ensemble.Leader() },
		},
	)
}

// A leader that was deposed while it stood still does not know that when it goes on. Its clients see no old document.
func TestDeposedLeaderIsNotBelieved(t *testing.T) {
	suites.NeedWhole(t, suites.Stores, "real servers")
	ensemble := testservers.StartZooKeepers(t, 3)
	uri := ensemble.Database()
	for round := range int64(3) {
		leader := ensemble.Leader()
		inside := storetest.Open(t, driver.Config{URI: at(ensemble, uri, leader.Addr)})
		var addrs []string
		for _, s := range ensemble.Others(leader) {
			addrs = append(addrs, s.Addr)
		}
		outside := storetest.Open(t, driver.Config{
			URI: at(ensemble, uri, strings.Join(addrs, ",")), Timeout: patient,
		})
		apply(t.Context(), t, inside, driver.Applied, put(lock("g/a"), 2*round))
		leader.Freeze()
		change := put(lock("g/a"), 2*round+1)
		await(t, "the others write", func() bool {
			limited, cancel := context.WithTimeout(t.Context(), brief)
			defer cancel()
			outs, err := outside.Apply(limited, change)
			must(t, err)
			return outs[0].Status == driver.Applied
		})
		reading := make(chan *driver.Doc, 1)
		go func() { // sent while the leader still stands
			for {
				r, err := inside.Read(t.Context(), driver.KindLock, "g/a")
				if err == nil {
					reading <- &r.Docs[0]
					return
				}
			}
		}()
		time.Sleep(time.Duration(round) * 100 * time.Millisecond) // the read may wait in the frozen leader, or not
		leader.Thaw()
		if found := <-reading; found.Rev != change.Doc.Rev {
			t.Errorf("round %d: the deposed leader's client read revision %d, want %d", round, found.Rev,
				change.Doc.Rev)
		}
	}
}

// A client that is cut off comes back with its session or without, and its watch goes on after a Resync.
func TestClientIsCutOff(t *testing.T) {
	suites.NeedWhole(t, suites.Stores, "real servers")
	server := testservers.Shared(t, testservers.KindZooKeeper)
	uri, link := server.Database(), server.Link()
	s := storetest.Open(t, driver.Config{URI: server.Via(link, uri)})
	beside := storetest.Open(t, driver.Config{URI: uri})
	notes, err := s.Watch(t.Context(), driver.Interest{Session: "me"})
	must(t, err)
	wantResync(t, notes)
	w := through("").Write(t, storetest.Open(t, driver.Config{URI: server.Via(link, uri)}))
	for _, pause := range []time.Duration{0, 6 * time.Second} { // a session lives for 4 s
		w.GoOn(t)
		if pause == 0 {
			link.Cut()
		} else {
			link.Block()
			reserved := lock(fmt.Sprint("g/", pause))
			reserved.Next = "me"
			apply(t.Context(), t, beside, driver.Applied, put(reserved, 0))
			time.Sleep(pause) // longer than the session lives
			link.Unblock()
		}
		wantResync(t, notes)
		w.GoOn(t)
		next := lock(fmt.Sprint("g/after", pause))
		next.Next = "me"
		apply(t.Context(), t, beside, driver.Applied, put(next, 0))
		wantNotified(t, notes, next.ID)
		listed, err := s.List(t.Context(), driver.KindLock, driver.Query{From: next.ID, Limit: 1})
		must(t, err)
		if len(listed.Docs) != 1 || listed.Docs[0].ID != next.ID {
			t.Errorf("listed %+v, want %s", listed.Docs, next.ID)
		}
	}
	w.Check(t, beside)
}

// Connections that come and go do not have the channels of watches pile up, and notifications go on, also for a user
// who has to be named again.
func TestChannelsOfWatchesDoNotPileUp(t *testing.T) {
	const cuts = 50
	server := testservers.Shared(t, testservers.KindZooKeeper)
	uri, link := server.Database(), server.Link()
	known := strings.Replace(uri, "zk://", "zk://me:secret@", 1)
	s := storetest.Open(t, driver.Config{URI: server.Via(link, known)})
	beside := storetest.Open(t, driver.Config{URI: known})
	notes, err := s.Watch(t.Context(), driver.Interest{Session: "me"})
	must(t, err)
	wantResync(t, notes)
	before, most := zookeeper.Channels(s), 0
	for i := range int64(cuts) {
		link.Cut()
		wantResync(t, notes)
		free := lock(fmt.Sprint("g/", i))
		free.Next = "me"
		apply(t.Context(), t, beside, driver.Applied, put(free, 0))
		wantNotified(t, notes, free.ID)
		most = max(most, zookeeper.Channels(s))
	}
	t.Logf("%d channels before %d connections, then at most %d", before, cuts, most)
	if most > 25*before {
		t.Errorf("%d channels before, and %d later", before, most)
	}
}

func wantResync(t *testing.T, notes <-chan driver.Notification) {
	t.Helper()
	wantNote(t, notes, "a Resync", func(n driver.Notification) bool { return n.Resync })
}

func wantNotified(t *testing.T, notes <-chan driver.Notification, id string) {
	t.Helper()
	wantNote(t, notes, id, func(n driver.Notification) bool { return n.ID == id })
}

func wantNote(t *testing.T, notes <-chan driver.Notification, what string, f func(driver.Notification) bool) {
	t.Helper()
	late := time.After(patient)
	for {
		select {
		case n, open := <-notes:
			if !open {
				t.Fatalf("the watch ended before %s", what)
			}
			if f(n) {
				return
			}
		case <-late:
			t.Fatalf("no notification within %v: %s", patient, what)
		}
	}
}

// An open without a majority says so.
func TestOpenWithoutMajority(t *testing.T) {
	suites.NeedWhole(t, suites.Stores, "real servers")
	for mode, says := range map[string]string{"false": "serves no one", "true": "is in read-only mode"} {
		t.Setenv("JAVA_TOOL_OPTIONS", "-Dreadonlymode.enabled="+mode) // no line of the configuration sets it
		ensemble := testservers.StartZooKeepers(t, 3)
		uri := ensemble.Database()
		for _, follower := range ensemble.Others(ensemble.Servers[0]) {
			follower.Kill()
		}
		await(t, "the last one says that it "+says, func() bool {
			s, err := zookeeper.Open(t.Context(), zookeeper.Options{URI: uri, Timeout: brief})
			if err == nil {
				must(t, s.Close(t.Context()))
				return false
			}
			if !errors.Is(err, driver.ErrUnavailable) {
				t.Fatal(err)
			}
			return strings.Contains(err.Error(), says) && strings.Contains(err.Error(), "no majority")
		})
	}
}
