package elect_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/memory"
)

// While nothing changes, a replica writes its heartbeat, and what it reads does not grow with the number of keys.
func TestRestCostsTheSameForAnyNumberOfKeys(t *testing.T) {
	for name, watch := range map[string]bool{"watching": true, "polling": false} {
		t.Run(name, func(t *testing.T) {
			few, many := costOfRest(t, watch, 2), costOfRest(t, watch, 200)
			// Where timers end at the same moment, the order decides whether two questions share a read.
			if many.reads > few.reads+5 || many.docs > few.docs+5 || many.changes > few.changes+5 {
				t.Errorf("with 2 keys %+v, with 200 keys %+v", few, many)
			}
			if most := int64(atRest/(lease/10)) + 2; many.changes > most { // a member is written now and then
				t.Errorf("%d documents written in %v, want at most %d", many.changes, atRest, most)
			}
		})
	}
}

const atRest = 20 * lease

// cost is how much was asked of the store.
type cost struct{ reads, docs, changes int64 }

func costOfRest(t *testing.T, watch bool, keys int) (c cost) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		counted := &countedStore{}
		n := startNode(t, memory.New(), "a", func(cfg *elect.Config) {
			counted.Store = cfg.Store
			if !watch {
				counted.Store = blindStore{cfg.Store}
			}
			cfg.Store = counted
		})
		n.track(t)
		rec := newRecorder(t)
		for i := range keys {
			mustLock(t, n, elect.Key(fmt.Sprintf("g/%d", i)), rec.hold("a"))
		}
		time.Sleep(10 * lease) // until what was written is old
		before := counted.cost()
		time.Sleep(atRest)
		after := counted.cost()
		c = cost{after.reads - before.reads, after.docs - before.docs, after.changes - before.changes}
		n.stop()
	})
	return c
}

// countedStore counts calls that read, and documents that are returned and written.
type countedStore struct {
	store.Store
	reads, docs, changes atomic.Int64
}

func (s *countedStore) cost() cost { return cost{s.reads.Load(), s.docs.Load(), s.changes.Load()} }

func (s *countedStore) Read(ctx context.Context, kind driver.Kind, ids ...string) (driver.Reply, error) {
	reply, err := s.Store.Read(ctx, kind, ids...)
	return s.read(reply), err
}

func (s *countedStore) List(ctx context.Context, kind driver.Kind, q driver.Query) (driver.Reply, error) {
	reply, err := s.Store.List(ctx, kind, q)
	return s.read(reply), err
}

func (s *countedStore) read(reply driver.Reply) driver.Reply {
	s.reads.Add(1)
	s.docs.Add(int64(len(reply.Docs)))
	return reply
}

func (s *countedStore) Apply(ctx context.Context, changes ...driver.Change) ([]driver.Outcome, error) {
	s.changes.Add(int64(len(changes)))
	return s.Store.Apply(ctx, changes...)
}
