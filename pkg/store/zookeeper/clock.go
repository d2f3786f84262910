package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/shardctl/shardctl/pkg/store/driver"
)

// clock is what replies say of the ensemble's clock, and of the number of its last transaction. Both come with the
// data of a znode, so that no read costs one more request.
type clock struct {
	mu   sync.Mutex
	base int64     // added to transactions' numbers
	zxid int64     // of the newest transaction heard of
	ms   int64     // the leader's clock at that transaction, Unix ms
	at   time.Time // when that was heard
}

// write notes a znode that this client has just written: its time is now.
func (c *clock) write(stat *zk.Stat, at time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if stat.Mzxid >= c.zxid || c.at.IsZero() {
		c.ms, c.at = stat.Mtime, at
	}
	c.zxid = max(c.zxid, stat.Mzxid)
}

// read notes a znode that was read: no one knows how long ago it was written.
func (c *clock) read(stat *zk.Stat) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.zxid = max(c.zxid, stat.Mzxid, stat.Pzxid)
}

// now is the leader's clock, or this machine's as long as this client has written nothing.
func (c *clock) now(at time.Time) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.at.IsZero() {
		return at.UnixMilli()
	}
	return c.ms + at.Sub(c.at).Milliseconds()
}

// floor is base plus the number of the newest transaction. The upper half of that number is the leader's term, the
// lower half counts within it (ZooKeeper Internals, "Atomic Broadcast"). So it rises with every write. A client hears
// of transactions by the znodes that it reads and writes: one that lists only may be behind by a moment.
func (c *clock) floor() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.base + c.zxid
}

// raiseBase takes what BASE/floor says. It only rises: the largest that was seen counts.
func (c *clock) raiseBase(base int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.base = max(c.base, base)
}

// baseFor is the base that makes the floor at least so much; 0: it is.
func (c *clock) baseFor(least int64) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.base+c.zxid >= least {
		return 0
	}
	return least - c.zxid
}

// floorFactor is how many times as fast as a clock the floor rises at least. An election raises transactions' numbers
// by 1<<32, which is 49.7 days in milliseconds. When all znodes are lost, or older files of the servers are restored,
// their numbers begin below those that were given. So each process that opens a store raises the floor to so many times
// the clock. It is above all that was given then, unless leaders were elected more often than every 37 hours on
// average.
const floorFactor = 32

// floorOf is the least floor of a store that is opened at ms, in Unix ms.
func floorOf(ms int64) int64 { return min(max(ms, 0), driver.MaxMark/(2*floorFactor)) * floorFactor }

// base is how new this client's knowledge of BASE/floor is. A watch says when others raise it.
type base struct {
	fired atomic.Uint64 // counts events of the watch
	mu    sync.Mutex
	known baseAt
}

// baseAt is when BASE/floor was read and its watch was set. The zero value: never, since generations begin at 1.
type baseAt struct{ fired, generation uint64 }

// learnBase reads BASE/floor if its watch has fired or was lost. Events come before any later reply. So who calls
// it after a request knows what others wrote before that one. A base that was deleted or edited leaves what is known.
func (a *access) learnBase(ctx context.Context) error {
	now := baseAt{a.floorBase.fired.Load(), a.client.generation.Load()}
	a.floorBase.mu.Lock()
	known := a.floorBase.known
	a.floorBase.mu.Unlock()
	if known == now {
		return nil
	}
	data, err := do(ctx, a.client, func(conn *zk.Conn) ([]byte, error) {
		data, _, _, err := conn.GetW(a.floorPath())
		return data, err
	})
	if errors.Is(err, zk.ErrNoNode) {
		return nil
	}
	if err != nil {
		return err
	}
	if base, ok := parseBase(data); ok {
		a.clock.raiseBase(base)
	}
	a.floorBase.mu.Lock()
	a.floorBase.known = now
	a.floorBase.mu.Unlock()
	return nil
}

// parseBase reads what is in BASE/floor; false: it was edited, and is none.
func parseBase(data []byte) (base int64, ok bool) {
	base, err := strconv.ParseInt(string(data), 10, 64)
	return base, err == nil && base >= 0 && base <= driver.MaxMark
}

// readBase reads what is added to transactions' numbers, and the znode's version.
func (s *setup) readBase(ctx context.Context) (version int32, err error) {
	f, err := s.get(ctx, s.floorPath())
	if err != nil {
		return 0, fmt.Errorf("read %s: %w", s.floorPath(), err)
	}
	if f.stat == nil {
		return 0, fmt.Errorf("%w: %s was deleted: write to it a number above every token",
			driver.ErrInvalid, s.floorPath())
	}
	base, ok := parseBase(f.data)
	if !ok {
		return 0, fmt.Errorf("%w: %s holds no number from 0 to %d", driver.ErrInvalid, s.floorPath(),
			int64(driver.MaxMark))
	}
	s.clock.raiseBase(base)
	return f.stat.Version, nil
}

// raiseFloor raises the base until the floor is at least what least says once the ensemble has shown its clock.
func (s *setup) raiseFloor(ctx context.Context, least func() int64) error {
	for {
		if err := s.set(ctx, s.barrierPath(), nil); err != nil {
			return fmt.Errorf("write %s: %w", s.barrierPath(), err)
		}
		version, err := s.readBase(ctx)
		if err != nil {
			return err
		}
		base := s.clock.baseFor(least())
		if base == 0 {
			return nil
		}
		_, err = do(ctx, s.client, func(conn *zk.Conn) (*zk.Stat, error) {
			return conn.Set(s.floorPath(), strconv.AppendInt(nil, base, 10), version)
		})
		if err == nil {
			s.clock.raiseBase(base)
			return nil
		}
		if !errors.Is(err, zk.ErrBadVersion) { // else somebody was faster
			return fmt.Errorf("write %s: %w", s.floorPath(), err)
		}
	}
}
