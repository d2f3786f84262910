package elect_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/elect/cluster"
	"github.com/shardctl/shardctl/pkg/store/memory"
)

// A balancer keeps what it was just given until it has looked at what operators ask for.
func TestViewsSayWhetherAKeyWasClaimedSinceTheLastLook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, rec := memory.New(), newRecorder(t)
		n := startNode(t, db, "a")
		eventually(t, lease, "it is open", func() bool { return n.View().Open && n.View().Looked > 0 })
		n.store.Fault(func(c memory.Call) memory.Verdict { // nothing is looked at any more
			if c.Op == memory.OpList {
				return memory.Verdict{Fault: memory.Hang}
			}
			return memory.Verdict{}
		})
		mustLock(t, n, "g/k", rec.hold("a"))
		held := func() cluster.Held { return n.View().Held[elect.Key("g/k")] }
		eventually(t, time.Second, "it runs", func() bool { return held().Phase == cluster.PhaseRunning })
		claimed := held().Look
		if looked := n.View().Looked; claimed < looked {
			t.Errorf("claimed at look %d, and look %d is over", claimed, looked)
		}
		n.store.Fault(nil)
		eventually(t, 2*lease, "it has looked since", func() bool { return n.View().Looked > claimed })
		if now := held().Look; now != claimed {
			t.Errorf("claimed at look %d, which was %d before", now, claimed)
		}
		n.stop()
	})
}
