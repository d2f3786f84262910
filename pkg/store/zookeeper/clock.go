package zookeeper

import (
	"sync"
	"time"

	"github.com/go-zookeeper/zk"
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
