package zookeeper_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/zookeeper"
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
	awaitWithin(t, patient, what, f)
}

func awaitWithin(t *testing.T, limit time.Duration, what string, f func() bool) {
	t.Helper()
	for end := time.Now().Add(limit); !f(); {
		if time.Now().After(end) {
			t.Fatalf("not within %v: %s", limit, what)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// chain writes one lock again and again, each time at the revision after the last one that was answered. What is
// unknown is repeated as it was, as electors do.
type chain struct {
	s    store.Store
	id   string
	done atomic.Int64 // the last revision that was acknowledged
	err  error
}

func (c *chain) run(ctx context.Context) {
	for rev := int64(0); ctx.Err() == nil && c.err == nil; rev++ {
		change := put(lock(c.id), rev)
		change.Doc.Count = rev + 1
		c.err = c.write(ctx, change)
	}
}

func (c *chain) write(ctx context.Context, change store.Change) error {
	for ctx.Err() == nil {
		limited, cancel := context.WithTimeout(ctx, brief)
		outs, err := c.s.Apply(limited, change)
		cancel()
		switch {
		case err != nil:
			return err
		case outs[0].Status == store.Applied:
			c.done.Store(change.Doc.Rev)
			return nil
		case outs[0].Status != store.Unknown:
			return fmt.Errorf("the only writer of %s at %d: status %d, found %+v", c.id, change.IfRev, outs[0].Status,
				outs[0].Doc)
		case !errors.Is(outs[0].Err, store.ErrUnavailable):
			return outs[0].Err
		}
	}
	return nil
}

// chains runs some until the test calls end, which checks that nothing acknowledged was lost.
func chains(t *testing.T, uri string, n int) (all []*chain, end func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{}, n)
	for i := range n {
		c := &chain{s: open(t, zookeeper.Options{URI: uri, Timeout: patient}), id: fmt.Sprint("g/chain", i)}
		all = append(all, c)
		go func() { c.run(ctx); ended <- struct{}{} }()
	}
	return all, func() {
		t.Helper()
		cancel()
		for range n {
			<-ended
		}
		s := open(t, zookeeper.Options{URI: uri, Timeout: patient})
		for _, c := range all {
			found := readOne(t, s, store.KindLock, c.id)
			last := c.done.Load()
			switch {
			case c.err != nil:
				t.Error(c.err)
			case found == nil || found.Rev < last || found.Rev > last+1 || found.Count != found.Rev:
				t.Errorf("%s: found %+v, acknowledged up to %d", c.id, found, last)
			}
		}
	}
}

// elections bounds the wait for a new leader. An election that fails costs ZooKeeper initLimit, here 8 s, and the next
// may fail too while a server fetches data.
const elections = time.Minute

// further waits until every chain has gone on, and says how long that took.
func further(t *testing.T, all []*chain) time.Duration {
	t.Helper()
	begin := time.Now()
	for _, c := range all {
		last := c.done.Load()
		awaitWithin(t, elections, c.id+" goes on", func() bool { return c.done.Load() > last+1 })
	}
	return time.Since(begin)
}

// A leader that dies, or stands still, costs an election. Nothing that was acknowledged is lost.
func TestEnsembleLosesItsLeader(t *testing.T) {
	ensemble := testservers.StartZooKeepers(t, 3)
	uri := ensemble.Database()
	all, end := chains(t, uri, 4)
	further(t, all)

	leader := ensemble.Leader()
	leader.Kill()
	t.Logf("leader killed: all write again after %v", further(t, all))
	leader.Start()

	leader = ensemble.Leader()
	leader.Freeze()
	t.Logf("leader frozen: all write again after %v", further(t, all))
	leader.Thaw()
	further(t, all)

	follower := ensemble.Others(ensemble.Leader())[0]
	follower.Freeze()
	t.Logf("follower frozen: all write again after %v", further(t, all))
	follower.Thaw()

	for _, s := range ensemble.Servers {
		s.Kill()
	}
	for _, s := range ensemble.Servers {
		s.Start()
	}
	ensemble.Leader()
	t.Logf("all killed and started: all write again after %v", further(t, all))
	end()
}

// Without a majority nothing is confirmed and nothing refused. Afterwards the same change is answered.
func TestEnsembleLosesItsMajority(t *testing.T) {
	ensemble := testservers.StartZooKeepers(t, 3)
	s := open(t, zookeeper.Options{URI: ensemble.Database(), Timeout: patient})
	apply(t.Context(), t, s, store.Applied, put(lock("g/a"), 0))
	leader := ensemble.Leader()
	for _, follower := range ensemble.Others(leader) {
		follower.Freeze()
	}
	limited, cancel := context.WithTimeout(t.Context(), brief)
	defer cancel()
	change := put(lock("g/a"), 1)
	out := apply(limited, t, s, store.Unknown, change)
	if !errors.Is(out.Err, store.ErrUnavailable) {
		t.Errorf("got %v, want that the store is unavailable", out.Err)
	}
	limited, cancel = context.WithTimeout(t.Context(), brief)
	defer cancel()
	if r, err := s.Read(limited, store.KindLock, "g/a"); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("read %+v, %v without a majority", r.Docs, err)
	}
	for _, follower := range ensemble.Others(leader) {
		follower.Thaw()
	}
	await(t, "the repeated change is applied", func() bool {
		outs, err := s.Apply(t.Context(), change)
		must(t, err)
		return outs[0].Status == store.Applied
	})
}

// A leader that was deposed while it stood still does not know that when it goes on. Its clients see no old document.
func TestDeposedLeaderIsNotBelieved(t *testing.T) {
	ensemble := testservers.StartZooKeepers(t, 3)
	uri := ensemble.Database()
	for round := range int64(3) {
		leader := ensemble.Leader()
		inside := open(t, zookeeper.Options{URI: at(ensemble, uri, leader.Addr), Timeout: patient})
		var addrs []string
		for _, s := range ensemble.Others(leader) {
			addrs = append(addrs, s.Addr)
		}
		outside := open(t, zookeeper.Options{
			URI: at(ensemble, uri, strings.Join(addrs, ",")), Timeout: patient,
		})
		apply(t.Context(), t, inside, store.Applied, put(lock("g/a"), 2*round))
		leader.Freeze()
		change := put(lock("g/a"), 2*round+1)
		await(t, "the others write", func() bool {
			limited, cancel := context.WithTimeout(t.Context(), brief)
			defer cancel()
			outs, err := outside.Apply(limited, change)
			must(t, err)
			return outs[0].Status == store.Applied
		})
		reading := make(chan *store.Doc, 1)
		go func() { // sent while the leader still stands
			for {
				r, err := inside.Read(t.Context(), store.KindLock, "g/a")
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
	server := testservers.Shared(t, testservers.KindZooKeeper)
	uri, link := server.Database(), server.Link()
	s := open(t, zookeeper.Options{URI: server.Via(link, uri), Timeout: patient})
	beside := open(t, zookeeper.Options{URI: uri, Timeout: patient})
	notes, err := s.Watch(t.Context(), store.Interest{Session: "me"})
	must(t, err)
	wantResync(t, notes)
	all, end := chains(t, server.Via(link, uri), 2)
	for _, pause := range []time.Duration{0, 6 * time.Second} { // a session lives for 4 s
		further(t, all)
		if pause == 0 {
			link.Cut()
		} else {
			link.Block()
			reserved := lock(fmt.Sprint("g/", pause))
			reserved.Next = "me"
			apply(t.Context(), t, beside, store.Applied, put(reserved, 0))
			time.Sleep(pause) // longer than the session lives
			link.Unblock()
		}
		wantResync(t, notes)
		further(t, all)
		next := lock(fmt.Sprint("g/after", pause))
		next.Next = "me"
		apply(t.Context(), t, beside, store.Applied, put(next, 0))
		wantNotified(t, notes, next.ID)
		listed, err := s.List(t.Context(), store.KindLock, store.Query{From: next.ID, Limit: 1})
		must(t, err)
		if len(listed.Docs) != 1 || listed.Docs[0].ID != next.ID {
			t.Errorf("listed %+v, want %s", listed.Docs, next.ID)
		}
	}
	end()
}

// Connections that come and go do not have the channels of watches pile up, and notifications go on, also for a user
// who has to be named again.
func TestChannelsOfWatchesDoNotPileUp(t *testing.T) {
	const cuts = 50
	server := testservers.Shared(t, testservers.KindZooKeeper)
	uri, link := server.Database(), server.Link()
	known := strings.Replace(uri, "zk://", "zk://me:secret@", 1)
	s := open(t, zookeeper.Options{URI: server.Via(link, known), Timeout: patient})
	beside := open(t, zookeeper.Options{URI: known, Timeout: patient})
	notes, err := s.Watch(t.Context(), store.Interest{Session: "me"})
	must(t, err)
	wantResync(t, notes)
	before, most := zookeeper.Channels(s), 0
	for i := range int64(cuts) {
		link.Cut()
		wantResync(t, notes)
		free := lock(fmt.Sprint("g/", i))
		free.Next = "me"
		apply(t.Context(), t, beside, store.Applied, put(free, 0))
		wantNotified(t, notes, free.ID)
		most = max(most, zookeeper.Channels(s))
	}
	t.Logf("%d channels before %d connections, then at most %d", before, cuts, most)
	if most > 25*before {
		t.Errorf("%d channels before, and %d later", before, most)
	}
}

func wantResync(t *testing.T, notes <-chan store.Notification) {
	t.Helper()
	wantNote(t, notes, "a Resync", func(n store.Notification) bool { return n.Resync })
}

func wantNotified(t *testing.T, notes <-chan store.Notification, id string) {
	t.Helper()
	wantNote(t, notes, id, func(n store.Notification) bool { return n.ID == id })
}

func wantNote(t *testing.T, notes <-chan store.Notification, what string, f func(store.Notification) bool) {
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

// Heartbeats, claims and what concerns others wake no one.
func TestWatchIsFiltered(t *testing.T) {
	uri := testservers.Shared(t, testservers.KindZooKeeper).Database()
	s := open(t, zookeeper.Options{URI: uri, Timeout: patient})
	session := store.Doc{Kind: store.KindSession, ID: "s", State: store.StateLive}
	apply(t.Context(), t, s, store.Applied, put(session, 0))
	notes, err := s.Watch(t.Context(), store.Interest{Session: "me"})
	must(t, err)
	wantResync(t, notes)
	for rev := range int64(5) {
		apply(t.Context(), t, s, store.Applied, put(session, rev+1))
		owned := lock("g/a")
		owned.Session = fmt.Sprint("s", rev)
		apply(t.Context(), t, s, store.Applied, put(owned, rev))
		for _, kind := range []store.Kind{store.KindMember, store.KindValue, store.KindEvent} {
			apply(t.Context(), t, s, store.Applied, put(store.Doc{Kind: kind, ID: "x"}, rev))
		}
	}
	mine := lock("g/mine")
	mine.Next = "me"
	apply(t.Context(), t, s, store.Applied, put(mine, 0))
	if n := <-notes; n.ID != mine.ID || n.Doc == nil || n.Doc.Next != "me" {
		t.Errorf("notification %+v, want the lock reserved for me, and nothing before it", n)
	}
}

// An open without a majority says so.
func TestOpenWithoutMajority(t *testing.T) {
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
			if !errors.Is(err, store.ErrUnavailable) {
				t.Fatal(err)
			}
			return strings.Contains(err.Error(), says) && strings.Contains(err.Error(), "no majority")
		})
	}
}
