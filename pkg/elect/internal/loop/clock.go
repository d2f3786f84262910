package loop

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/shardctl/shardctl/internal/clock"
	"github.com/shardctl/shardctl/internal/protocol"
	"github.com/shardctl/shardctl/pkg/store/driver"
)

// SteadyClock reads the machine's steady clocks.
type SteadyClock interface{ Now() protocol.Instant }

// goClock reads time.Now alone.
type goClock struct{ start time.Time }

// NewGoClock is a clock that follows the one of testing/synctest.
func NewGoClock() SteadyClock { return goClock{time.Now()} }

func (c goClock) Now() protocol.Instant {
	d := time.Since(c.start) + time.Hour // never near zero: the zero Instant means never
	return protocol.Instant{Mono: d, Boot: d}
}

// StoreClock is the store's clock as its replies show it. It may be read concurrently.
type StoreClock struct {
	local  SteadyClock
	offset atomic.Int64 // the store's clock in ms less the local steady clock in ms
	rev    atomic.Int64
}

// now is the store's clock in Unix ms, as the last reply showed it and the local clock carried it on. Before the
// first reply it is the local wall clock. It is for display and the order of age; revisions follow Revisions.
func (c *StoreClock) now() int64 {
	offset := c.offset.Load()
	if offset == 0 {
		return clock.Wall().UnixMilli()
	}
	return offset + c.local.Now().Boot.Milliseconds()
}

// Known reports whether a reply has shown a clock.
func (c *StoreClock) Known() bool { return c.offset.Load() != 0 }

// ahead is by how much the local wall clock is ahead of the store's; 0 before the first reply. What a reply took on its
// way is in it.
func (c *StoreClock) ahead() time.Duration {
	return time.Duration(clock.Wall().UnixMilli()-c.now()) * time.Millisecond
}

// Revisions is the clock of new revisions: the largest floor that a reply has shown. It is never carried on locally, so
// no revision is ever ahead of the store; 0 before the first reply, and nothing is written then.
func (c *StoreClock) Revisions() int64 { return c.rev.Load() }

// learn takes a reply's wall clock and floor.
func (c *StoreClock) learn(r driver.Reply) {
	if r.Wall > 0 {
		c.offset.Store(r.Wall - c.local.Now().Boot.Milliseconds())
	}
	for {
		known := c.rev.Load()
		if r.Floor <= known || c.rev.CompareAndSwap(known, r.Floor) {
			return
		}
	}
}

// Now is the local steady clock.
func (c *StoreClock) Now() protocol.Instant { return c.local.Now() }

// Moment is one look at all clocks.
func (c *StoreClock) Moment() protocol.Moment {
	return protocol.Moment{Now: c.local.Now(), Clock: c.now(), Rev: c.Revisions()}
}

// timedStore is a store whose replies set a clock, but for those of another lineage.
type timedStore struct {
	lineageStore
	clock *StoreClock
}

func (s timedStore) Read(ctx context.Context, kind driver.Kind, ids ...string) (driver.Reply, error) {
	reply, err := s.lineageStore.Read(ctx, kind, ids...)
	if err == nil {
		s.clock.learn(reply)
	}
	return reply, err
}

func (s timedStore) List(ctx context.Context, kind driver.Kind, q driver.Query) (driver.Reply, error) {
	reply, err := s.lineageStore.List(ctx, kind, q)
	if err == nil {
		s.clock.learn(reply)
	}
	return reply, err
}
