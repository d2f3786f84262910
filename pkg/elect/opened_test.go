package elect_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardctl/shardctl/internal/record"
	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/memory"
)

// When a process opened says which revision of the program is the newer one. The first heartbeat is acknowledged before
// any reply has shown the store's clock, here. A local clock that is two hours off must not be written down for it.
func TestOpenedIsByTheStoresClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const off = 2 * time.Hour
		db := memory.New(memory.WithClock(func() time.Time { return time.Now().Add(off) }))
		began := time.Now().Add(off).UnixMilli()
		n := startNode(t, db, "a", func(cfg *elect.Config) { cfg.Store = slowToList{cfg.Store} })
		defer n.stop()
		var opened int64
		eventually(t, time.Minute, "the member says when it was opened", func() bool {
			res, err := db.List(t.Context(), driver.KindMember, driver.Query{})
			if err != nil || len(res.Docs) == 0 {
				return false
			}
			m, err := record.MemberFrom(res.Docs[0])
			opened = m.Opened
			return err == nil && opened != 0
		})
		if opened < began || opened > time.Now().Add(off).UnixMilli() {
			t.Errorf("opened %v before the store's clock", time.Duration(began-opened)*time.Millisecond)
		}
	})
}

// slowToList answers lists, which show the clock, later than writes.
type slowToList struct{ store.Store }

func (s slowToList) List(ctx context.Context, kind driver.Kind, q driver.Query) (driver.Reply, error) {
	time.Sleep(100 * time.Millisecond)
	return s.Store.List(ctx, kind, q)
}
