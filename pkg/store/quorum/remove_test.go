package quorum_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/memory"
)

// A tombstone goes after an hour, when all servers hold it. What is created afterwards begins above the floor.
func TestTombstonesAreRemoved(t *testing.T) {
	t.Parallel()
	var ahead atomic.Int64
	m := blank(3)
	for i := range m.servers {
		m.servers[i] = memory.New(memory.WithClock(func() time.Time {
			return time.Now().Add(time.Duration(ahead.Load()))
		}))
	}
	if _, err := m.init(t.Context()); err != nil {
		t.Fatal(err)
	}
	s := mustOpen(t, m)
	eventually(t, func() error { return allCount(s) })
	apply(t, s, put("g/a", 0, 5, 1))
	gone := put("g/a", 5, 5, 2)
	gone.Op = store.Delete
	if out := apply(t, s, gone); out.Status != store.Applied {
		t.Fatalf("%+v", out)
	}
	if out := apply(t, s, put("g/a", 0, 5, 3)); out.Status != store.Overtaken {
		t.Fatalf("a creation at the revision that was deleted: %+v", out)
	}
	remove := func() int {
		n, _ := s.RemoveTombstones(t.Context(), store.KindLock) // a server that is away keeps them
		return n
	}
	if n := remove(); n != 0 {
		t.Fatalf("%d removed at once", n)
	}
	ahead.Store(int64(2 * time.Hour))
	m.leave(1)
	if n := remove(); n != 0 {
		t.Fatalf("%d removed while a server is away", n)
	}
	m.back(1)
	eventually(t, func() error {
		remove()
		return m.empty(t, store.KindLock, "g/a")
	})
	if out := apply(t, s, put("g/a", 0, 6, 4)); out.Status != store.Applied {
		t.Fatalf("created again: %+v", out)
	}
	wantRev(t, mustOpen(t, m), "g/a", 6)
}
