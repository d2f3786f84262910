package redis_test

import (
	"context"
	"testing"
	"time"

	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/test/testservers"
)

// set is three servers under Sentinel, and a client of them that has claimed g/held.
func set(t *testing.T) (*testservers.RedisSet, store.Store, store.Reply) {
	t.Helper()
	servers := testservers.StartRedisSet(t, 3)
	s := open(t, store.Config{URI: servers.URI(), Timeout: time.Second})
	claim(t, s, "g/held")
	return servers, s, floor(t, s)
}

// wantFailover wants another history, and a gate that opens again.
func wantFailover(t *testing.T, s store.Store, before store.Reply) {
	t.Helper()
	begin := time.Now()
	waitFor(t, func() bool { return floor(t, s).History != before.History })
	t.Logf("reads again after %v", time.Since(begin).Round(time.Millisecond))
	if out := apply(t, s, lock("g/early", floor(t, s).Floor+1, lease)); out.Status == store.Applied {
		t.Error("a claim at once after a failover")
	}
	claim(t, s, "g/after")
	res, err := s.Read(t.Context(), store.KindLock, "g/after")
	if err != nil || len(res.Docs) != 1 || res.Docs[0].Rev <= before.Floor {
		t.Errorf("claimed: %+v, %v; want a token above %d", res.Docs, err, before.Floor)
	}
	t.Logf("claims again after %v", time.Since(begin).Round(time.Millisecond))
}

func TestTheMasterIsKilled(t *testing.T) {
	servers, s, before := set(t)
	old := servers.Master(t.Context())
	servers.Nodes[old].Kill()
	wantFailover(t, s, before)
	servers.Nodes[old].Start() // as a replica: it synchronizes, and claims wait for a lease again
	waitFor(t, func() bool {
		return apply(t, s, lock("g/"+testservers.Name(), floor(t, s).Floor+1, lease)).Status == store.Unknown
	})
	claim(t, s, "g/rejoined")
}

func TestTheMasterIsFrozenThenThawed(t *testing.T) {
	servers, s, before := set(t)
	old := servers.Master(t.Context())
	// A client that has talked to the old master alone, and goes on to.
	stale := open(t, store.Config{URI: "redis://" + servers.Nodes[old].Addr + "?nodes=3", Timeout: time.Second})
	floor(t, stale)
	servers.Nodes[old].Freeze()
	wantFailover(t, s, before)
	late := lock("g/late", floor(t, s).Floor+1, 0)
	done := make(chan store.Outcome)
	go func() {
		outs, err := stale.Apply(t.Context(), late)
		if err != nil {
			t.Error(err)
		}
		done <- outs[0]
	}()
	servers.Nodes[old].Thaw()
	if out := <-done; out.Status != store.Unknown {
		t.Errorf("the old master, thawed, has made a change: %+v", out)
	}
	if res := floor(t, s); res.History == before.History {
		t.Error("the old master is followed again")
	}
}

// A client on the side of a master that the others have left gets nothing acknowledged.
func TestTheMasterIsPartitioned(t *testing.T) {
	servers, s, before := set(t)
	old := servers.Master(t.Context())
	beside := open(t, store.Config{URI: "redis://" + servers.Nodes[old].Addr + "?nodes=3", Timeout: time.Second})
	claim(t, beside, "g/beside")
	for i := range servers.Links {
		if i != old {
			continue
		}
		servers.Links[i].Block()
	}
	// Its replicas are cut off by it as well: they are connected through its link.
	out := apply(t, beside, lock("g/alone", floor(t, s).Floor+1, 0))
	wantFailover(t, s, before)
	again := apply(t, beside, lock("g/alone2", before.Floor+1_000_000, 0))
	if out.Status != store.Unknown || again.Status != store.Unknown {
		t.Errorf("changes on the old master's side: %+v, then %+v; want unknown", out, again)
	}
	if _, err := beside.Read(t.Context(), store.KindLock, "g/beside"); err == nil {
		t.Error("a read on the old master's side is good")
	}
	servers.Links[old].Unblock()
	waitFor(t, func() bool { return info(t, servers.Nodes[old].Addr)["role"] == "slave" })
	if res, err := s.Read(t.Context(), store.KindLock, "g/alone", "g/alone2"); err != nil || len(res.Docs) > 0 {
		t.Errorf("what it took alone is there: %+v, %v", res.Docs, err)
	}
}

// WAIT alone would confirm what a script did not write; each script writes, so frozen replicas are noticed by reads.
func TestFrozenReplicasAcknowledgeNothing(t *testing.T) {
	servers, s, _ := set(t)
	master := servers.Master(t.Context())
	for i, node := range servers.Nodes {
		if i != master {
			node.Freeze()
		}
	}
	if _, err := s.Read(t.Context(), store.KindLock, "g/held"); err == nil {
		t.Error("a read that no replica has acknowledged is good")
	}
	if out := apply(t, s, lock("g/x", 9, 0)); out.Status != store.Unknown {
		t.Errorf("a change that no replica has acknowledged: %+v", out)
	}
	for _, node := range servers.Nodes {
		node.Thaw()
	}
	floor(t, s)
}

// A watch ends when another master has taken over. One that is opened then notifies of what happens there.
func TestAWatchEndsWithItsMaster(t *testing.T) {
	servers, s, before := set(t)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	notes, err := s.Watch(ctx, store.Interest{})
	if err != nil {
		t.Fatal(err)
	}
	if n := <-notes; !n.Resync {
		t.Errorf("first %+v, want a Resync", n)
	}
	servers.Nodes[servers.Master(t.Context())].Kill()
	for range notes { // until it ends
	}
	if ctx.Err() != nil {
		t.Fatal("the watch does not end")
	}
	waitFor(t, func() bool { return floor(t, s).History != before.History })
	if notes, err = s.Watch(ctx, store.Interest{}); err != nil {
		t.Fatal(err)
	}
	<-notes
	must(t, s, store.Change{Op: store.Increment, Doc: store.Doc{Kind: store.KindGroup, ID: "later"}}, store.Applied)
	for n := range notes {
		if n.ID == "later" {
			return
		}
	}
	t.Error("the new watch does not notify")
}
