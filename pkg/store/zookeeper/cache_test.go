package zookeeper

import (
	"context"
	"crypto/x509"
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/storetest"
	"github.com/shardctl/shardctl/test/suites"
	"github.com/shardctl/shardctl/test/testservers"
)

// cached is a store with one lock, g/a at revision 1, and its cache of locks.
func cached(t *testing.T) (driver.Store, *cache) {
	t.Helper()
	uri := testservers.Shared(t, testservers.KindZooKeeper).Database()
	s, err := Open(t.Context(), Options{URI: uri, Timeout: 20 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close(context.Background()) }) // it always is nil
	outs, err := s.Apply(t.Context(), driver.Change{Doc: driver.Doc{
		Kind: driver.KindLock, ID: "g/a", Group: "g", Rev: 1, WriterID: driver.WriterID{Session: "writer", Seq: 1},
	}})
	if err != nil || outs[0].Status != driver.Applied {
		t.Fatalf("%+v, %v", outs, err)
	}
	return s, of(s).hub.caches[driver.KindLock]
}

func wantListed(t *testing.T, s driver.Store, n int) {
	t.Helper()
	r, err := s.List(t.Context(), driver.KindLock, driver.Query{})
	if err != nil || len(r.Docs) != n {
		t.Errorf("listed %+v, %v; want %d locks", r.Docs, err, n)
	}
}

// A refresh that ends between the directories and the documents, as one without time left, leaves nothing out: the next
// one reads what the directories name.
func TestRefreshGoesOnAfterOneThatFailed(t *testing.T) {
	s, m := cached(t)
	for i := range m.buckets {
		if err := m.list(t.Context(), &m.buckets[i], of(s).client.generation.Load()); err != nil {
			t.Fatal(err)
		}
	}
	wantListed(t, s, 1)
}

// What was in a directory that somebody deleted is gone from lists.
func TestDirectoryOfTheIndexIsDeleted(t *testing.T) {
	s, _ := cached(t)
	wantListed(t, s, 1)
	p := of(s).place(driver.KindLock, "g/a")
	for _, path := range []string{p.entry(1), p.index} {
		if err := of(s).client.conn().Delete(path, -1); err != nil {
			t.Fatal(err)
		}
	}
	wantListed(t, s, 0)
}

// A server that is not trusted ends the first connection, and none of the calls after it.
func TestUntrustedServerAfterASession(t *testing.T) {
	s, _ := cached(t)
	of(s).client.fail(x509.UnknownAuthorityError{})
	of(s).client.event(of(s).client.lib.number, zk.Event{Type: zk.EventSession, State: zk.StateDisconnected})
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if err := of(s).client.await(ctx); errors.Is(err, errRefused) {
		t.Errorf("got %v, want that it is waited for", err)
	}
	of(s).client.event(of(s).client.lib.number, zk.Event{Type: zk.EventSession, State: zk.StateHasSession})
}

// Lists that fail half-way leave nothing out of later ones, on the same connection or after it was lost.
func TestListsAreCompleteWhileOthersFail(t *testing.T) {
	suites.NeedWhole(t, suites.Stores, "real servers")
	server := testservers.Shared(t, testservers.KindZooKeeper)
	uri := server.Database()
	link := server.Link()
	var clients []driver.Store
	for _, at := range []string{uri, server.Via(link, uri)} {
		s, err := Open(t.Context(), Options{URI: at, Timeout: 20 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close(context.Background()) }) // it always is nil
		clients = append(clients, s)
	}
	storetest.CompleteLists(t, clients[0], clients[1], func(random *rand.Rand) {
		if random.IntN(10) == 0 {
			link.Cut()
		}
	})
}
