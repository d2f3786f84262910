package elect_test

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/memory"
)

// The owner of a deleted lock may notice while its lease is not valid, and nothing can be claimed. It must not
// forget: the others take it for the owner, and it lives.
func TestDeletedLockIsMadeAgainOnceTheLeaseIsValid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, rec, a, b := twoNodes(t)
		a.claim(t, "g/k", rec.hold("a"))
		eventually(t, time.Second, "b knows", func() bool { return b.View().Lock("g/k").Session == a.View().Session })

		const (
			cut    = iota // nothing gets through
			well          // until the lock is read that was refused
			deaf          // neither that nor heartbeats get through
			reads         // that does
			healed        // all does
		)
		var phase atomic.Int32
		a.store.Fault(func(c memory.Call) memory.Verdict {
			lock := c.Op == memory.OpRead && c.Kind == driver.KindLock
			if lock {
				phase.CompareAndSwap(well, deaf)
			}
			heartbeat := c.Op == memory.OpApply && c.Changes[0].Doc.Kind == driver.KindSession
			switch p := phase.Load(); {
			case p == cut, p == deaf && (lock || heartbeat), p == reads && heartbeat:
				return memory.Verdict{Fault: memory.LoseRequest}
			}
			return memory.Verdict{}
		})
		eventually(t, lease, "a has stopped it", func() bool { return rec.owner("g/k") == "" })
		deleteLock(t, db, "g/k")
		phase.Store(well)
		eventually(t, lease, "a reads the lock", func() bool { return phase.Load() == deaf })
		eventually(t, lease, "its lease is not valid", func() bool { return !a.View().Open })
		phase.Store(reads)
		time.Sleep(lease / 20)
		phase.Store(healed)
		eventually(t, lease, "b knows that it has no owner", func() bool {
			l, ok := b.View().Locks["g/k"]
			return ok && l.Session == "" && l.Rev > 0
		})
		a.stop()
		b.stop()
	})
}
