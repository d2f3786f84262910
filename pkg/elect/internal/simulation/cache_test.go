package simulation

import (
	"slices"

	"github.com/shardctl/shardctl/internal/protocol"
	"github.com/shardctl/shardctl/internal/record"
	"github.com/shardctl/shardctl/pkg/elect/internal/engine"
)

// shared is what a replica knows of the locks. It has the snapshot that all share, and in a cache of its own what it
// knows to be newer. The cache decides when to read, and what of a lock is news.
type shared struct {
	*engine.Cache
	snap    *snapshot
	version int          // of the snapshot read
	states  int          // changes of sessions read
	newer   []record.Key // of locks in the own cache, with repeats; some may have left it
}

func newShared(w *world, now protocol.Instant) *shared {
	c := &shared{Cache: engine.NewCache(w.p, now), snap: &w.snap, states: len(w.store.states)}
	c.Track(w.lists[0].groups...)
	return c
}

// arrived takes the snapshot that a refresh has read.
func (c *shared) arrived(version, states int) {
	c.version, c.states = version, states
	c.newer = slices.DeleteFunc(c.newer, func(key record.Key) bool {
		if c.ahead(key) != nil {
			return false
		}
		c.Cache.Correct(key, nil)
		return true
	})
}

// ahead is a key's lock in the own cache, where that is newer than the snapshot's; else nil.
func (c *shared) ahead(key record.Key) *record.Lock {
	if known := c.Cache.Lock(key); known != nil && known.Rev > c.shown(key) {
		return known
	}
	return nil
}

// shown is the revision of a lock in the snapshot; 0 where it is absent.
func (c *shared) shown(key record.Key) int64 { return revision(c.snap.locks[number(key)]) }

func revision(lock *record.Lock) int64 {
	if lock == nil {
		return 0
	}
	return lock.Rev
}

// current says whether the snapshot shows all that is known here.
func (c *shared) current() bool {
	return !slices.ContainsFunc(c.newer, func(key record.Key) bool { return c.ahead(key) != nil })
}

// Lock is a key's lock as known.
func (c *shared) Lock(key record.Key) *record.Lock {
	if known := c.ahead(key); known != nil {
		return known
	}
	return c.snap.locks[number(key)]
}

// Each calls do for every lock that no session alive owns: those of others are of no interest to who asks.
func (c *shared) Each(do func(*record.Lock)) {
	for _, key := range c.snap.free {
		do(c.snap.locks[key])
	}
}

// MaxRev is the largest revision known in the group.
func (c *shared) MaxRev(group string) int64 { return max(c.Cache.MaxRev(group), c.snap.high[group]) }

// Put takes a lock as read or written.
func (c *shared) Put(lock *record.Lock) {
	if c.shown(lock.Key) <= lock.Rev && lock != c.snap.locks[number(lock.Key)] {
		c.Cache.Put(lock)
		c.newer = append(c.newer, lock.Key)
	}
}

// Correct takes what a linearizable read or a refused write found.
func (c *shared) Correct(key record.Key, found *record.Lock) {
	c.Cache.Correct(key, found)
	c.newer = append(c.newer, key)
}
