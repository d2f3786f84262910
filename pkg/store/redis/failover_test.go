package redis_test

import (
	"context"
	"testing"
	"time"

	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/storetest"
	"github.com/shardctl/shardctl/test/suites"
	"github.com/shardctl/shardctl/test/testservers"
)

// set is three servers under Sentinel, and a client of them that has claimed g/held.
func set(t *testing.T) (*testservers.RedisSet, driver.Store, driver.Reply) {
	t.Helper()
	servers := testservers.StartRedisSet(t, 3)
	s := storetest.Open(t, driver.Config{URI: servers.URI(), Timeout: time.Second})
	claim(t, s, "g/held")
	return servers, s, floor(t, s)
}

// wantFailover wants another lineage, and a gate that opens again.
func wantFailover(t *testing.T, s driver.Store, before driver.Reply) {
	t.Helper()
	begin := time.Now()
	waitFor(t, func() bool { return floor(t, s).Lineage != before.Lineage })
	t.Logf("reads again after %v", time.Since(begin).Round(time.Millisecond))
	if out := apply(t, s, lock("g/early", floor(t, s).Floor+1, lease)); out.Status == driver.Applied {
		t.Error("a claim at once after a failover")
	}
	claim(t, s, "g/after")
	res, err := s.Read(t.Context(), driver.KindLock, "g/after")
	if err != nil || len(res.Docs) != 1 || res.Docs[0].Rev <= before.Floor {
		t.Errorf("claimed: %+v, %v; want a token above %d", res.Docs, err, before.Floor)
	}
	t.Logf("claims again after %v", time.Since(begin).Round(time.Millisecond))
}

func TestTheMasterIsKilled(t *testing.T) {
	suites.NeedWhole(t, suites.Stores, "real servers")
	servers, s, before := set(t)
	old := servers.Master(t.Context())
	servers.Nodes[old].Kill()
	wantFailover(t, s, before)
	servers.Nodes[old].Start() // as a replica: it synchronizes, and claims wait for a lease again
	waitFor(t, func() bool {
		return apply(t, s, lock("g/"+testservers.Name(), floor(t, s).Floor+1, lease)).Status == driver.Unknown
	})
	claim(t, s, "g/rejoined")
}

func TestTheMasterIsFrozenThenThawed(t *testing.T) {
	suites.NeedWhole(t, suites.Stores, "a real server")
	servers, s, before := set(t)
	old := servers.Master(t.Context())
	// A client that has talked to the old master alone, and goes on to.
	stale := storetest.Open(t, driver.Config{URI: "redis://" + servers.Nodes[old].Addr + "?nodes=3", Timeout: time.Second})
	floor(t, stale)
	servers.Nodes[old].Freeze()
	wantFailover(t, s, before)
	late := lock("g/late", floor(t, s).Floor+1, 0)
	done := make(chan driver.Outcome)
	go func() {
		outs, err := stale.Apply(t.Context(), late)
		if err != nil {
			t.Error(err)
		}
		done <- outs[0]
	}()
	servers.Nodes[old].Thaw()
	if out := <-done; out.Status != driver.Unknown {
		t.Errorf("the old master, thawed, has made a change: %+v", out)
	}
	if res := floor(t, s); res.Lineage == before.Lineage {
		t.Error("the old master is followed again")
	}
}

// A client on the side of a master that the others have left gets nothing acknowledged.
func TestTheMasterIsPartitioned(t *testing.T) {
	suites.NeedWhole(t, suites.Stores, "a real server")
	servers, s, before := set(t)
	old := servers.Master(t.Context())
	beside := storetest.Open(t, driver.Config{URI: "redis://" + servers.Nodes[old].Addr + "?nodes=3", Timeout: time.Second})
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
	if out.Status != driver.Unknown || again.Status != driver.Unknown {
		t.Errorf("changes on the old master's side: %+v, then %+v; want unknown", out, again)
	}
	if _, err := beside.Read(t.Context(), driver.KindLock, "g/beside"); err == nil {
		t.Error("a read on the old master's side is good")
	}
	servers.Links[old].Unblock()
	waitFor(t, func() bool { return info(t, servers.Nodes[old].Addr)["role"] == "slave" })
	if res, err := s.Read(t.Context(), driver.KindLock, "g/alone", "g/alone2"); err != nil || len(res.Docs) > 0 {
		t.Errorf("what it took alone is there: %+v, %v", res.Docs, err)
	}
}

// faulty has faults act on clients of a URI.
func faulty(uri string) storetest.Faults {
	return storetest.Faults{WatchEnds: true, Open: func(t *testing.T) driver.Store {
		t.Helper()
		return storetest.Open(t, driver.Config{URI: uri, Timeout: time.Second})
	}}
}

// WAIT alone would confirm what a script did not write; each script writes, so frozen replicas are noticed by reads.
func TestFrozenReplicasAcknowledgeNothing(t *testing.T) {
	suites.NeedWhole(t, suites.Stores, "a real server")
	servers := testservers.StartRedisSet(t, 3)
	replicas := func(do func(*testservers.Server)) {
		master := servers.Master(t.Context())
		for i, node := range servers.Nodes {
			if i != master {
				do(node)
			}
		}
	}
	faulty(servers.URI()).Run(t, storetest.Fault{
		Name: "replicas frozen", Silent: true, Begin: func() { replicas((*testservers.Server).Freeze) },
		End: func() { replicas((*testservers.Server).Thaw) },
	})
}

// A server alone is killed, stands still, and its network breaks.
func TestFaults(t *testing.T) {
	server := testservers.Start(t, testservers.KindRedis)
	link := server.Link()
	faulty("redis://"+link.Addr).Run(t,
		storetest.Fault{Name: "killed", Begin: server.Kill, End: server.Start, Silent: true},
		storetest.Fault{Name: "killed and started", Begin: func() { server.Kill(); server.Start() }},
		storetest.Fault{Name: "frozen", Begin: server.Freeze, End: server.Thaw, Silent: true},
		storetest.Fault{Name: "blocked network", Begin: link.Block, End: link.Unblock, Silent: true},
		storetest.Fault{Name: "cut", Begin: link.Cut},
	)
}

// A watch ends when another master has taken over. One that is opened then notifies of what happens there.
func TestAWatchEndsWithItsMaster(t *testing.T) {
	suites.NeedWhole(t, suites.Stores, "real servers")
	servers, s, before := set(t)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	notes, err := s.Watch(ctx, driver.Interest{})
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
	waitFor(t, func() bool { return floor(t, s).Lineage != before.Lineage })
	if notes, err = s.Watch(ctx, driver.Interest{}); err != nil {
		t.Fatal(err)
	}
	<-notes
	must(t, s, driver.Change{Op: driver.Increment, Doc: driver.Doc{Kind: driver.KindGroup, ID: "later"}}, driver.Applied)
	for n := range notes {
		if n.ID == "later" {
			return
		}
	}
	t.Error("the new watch does not notify")
}
