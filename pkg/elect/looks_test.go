package elect_test

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardctl/shardctl/internal/cluster"
	"github.com/shardctl/shardctl/internal/record"
	"github.com/shardctl/shardctl/pkg/elect"
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

// Sessions that are looked at now and then are known at once when they begin and when they end. So they are where the
// store has no notifications.
func TestSessionsThatBeginAndEndAreKnownSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := memory.New()
		start := func(name string) *node {
			return startNode(t, db, name, func(cfg *elect.Config) {
				cfg.LeaseDuration, cfg.Store = 20*time.Second, blindStore{cfg.Store}
			})
		}
		nodes := make([]*node, 15)
		for i := range nodes {
			nodes[i] = start(fmt.Sprintf("n%d", i))
		}
		known := func(session string, state record.SessionState) func() bool {
			return func() bool {
				for _, n := range nodes {
					if !slices.ContainsFunc(n.View().Sessions, func(s cluster.Session) bool {
						return s.ID == session && s.State == state
					}) {
						return false
					}
				}
				return true
			}
		}
		time.Sleep(time.Minute)
		ends := nodes[0]
		session := ends.View().Session
		nodes = nodes[1:]
		ends.stop()
		t.Log(eventually(t, time.Second, "all know that it has ended", known(session, record.Dead)))
		begins := start("new")
		eventually(t, time.Second, "it begins", func() bool { return begins.View().Open })
		t.Log(eventually(t, time.Second, "all know that it has begun", known(begins.View().Session, record.Live)))
		for _, n := range append(nodes, begins) {
			n.stop()
		}
	})
}
