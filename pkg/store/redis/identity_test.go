package redis_test

import (
	"strings"
	"testing"
	"time"

	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/storetest"
	"github.com/shardctl/shardctl/test/suites"
)

// A replica that goes on where it had left off closes the gate as well. A claim that was written before counts neither
// while the gate is closed, nor when it opens above it.
func TestAPartialSynchronizationClosesTheGate(t *testing.T) {
	suites.NeedWhole(t, suites.Stores, "real servers")
	servers, s, before := set(t)
	master := servers.Master(t.Context())
	first := lock("g/first", before.Floor+1000, lease)
	must(t, s, first, driver.Applied)
	partial := info(t, servers.Nodes[master].Addr)["sync_partial_ok"]
	servers.Links[master].Cut()
	waitFor(t, func() bool {
		now := info(t, servers.Nodes[master].Addr)
		return now["sync_partial_ok"] != partial && now["connected_slaves"] == "2"
	})
	for _, c := range []driver.Change{first, lock("g/second", before.Floor+60_000, lease)} {
		out := apply(t, s, c)
		if out.Status != driver.Unknown || !strings.Contains(out.Err.Error(), "claimed again in") {
			t.Errorf("%s, behind a closed gate: %+v", c.Doc.ID, out)
		}
	}
	if got := floor(t, s).Lineage; got != before.Lineage {
		t.Errorf("lineage %q, want %q: no write was lost", got, before.Lineage)
	}
	claim(t, s, "g/third")
	out := apply(t, s, first)
	if out.Status != driver.Refused || out.Doc == nil || out.Doc.WriterID != first.Doc.WriterID {
		t.Errorf("a claim of before the gate has opened: %+v, want it refused, and shown as written", out)
	}
}

// A master without a majority names no lineage, and shows nothing.
func TestAMasterWithoutAMajorityNamesNoLineage(t *testing.T) {
	suites.NeedWhole(t, suites.Stores, "a real server")
	servers, _, _ := set(t)
	old := servers.Master(t.Context())
	alone := storetest.Open(t, driver.Config{URI: "redis://" + servers.Nodes[old].Addr + "?nodes=3", Timeout: time.Second})
	before := floor(t, alone)
	for i, node := range servers.Nodes {
		if i != old {
			node.Freeze()
		}
	}
	servers.Nodes[old].Kill()
	servers.Nodes[old].Start()
	decided := lock("g/x", before.Floor+1, 0)
	decided.Lineage = before.Lineage
	for range 3 {
		if out := apply(t, alone, decided); out.Status != driver.Unknown || out.Lineage != before.Lineage {
			t.Errorf("a change: %+v, want unknown, in the lineage %q", out, before.Lineage)
		}
		if res, err := alone.List(t.Context(), driver.KindLock, driver.Query{}); err == nil {
			t.Errorf("a list: %+v", res)
		}
	}
}
