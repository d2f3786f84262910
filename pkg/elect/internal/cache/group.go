package cache

import (
	"github.com/shardctl/shardctl/pkg/elect/record"
)

// group is one tracked group.
type group struct {
	since   int // the call of Track that added it
	maxRev  int64
	read    int64 // the store's clock at the last reading of its locks
	count   int64 // as of then
	loaded  bool
	touched bool // something says that what is known is not the newest
}

// Put takes a lock as read or written, which nobody changes any more. A lower revision than known is an older reply.
func (c *Cache) Put(lock *record.Lock) {
	g := c.groups[lock.Key.Group()]
	if g == nil {
		return
	}
	known := c.locks.all[lock.Key]
	if known != nil && known.Rev > lock.Rev {
		return
	}
	if known == nil || !same(*known, *lock) { // lists read again what is known: it stays the same lock, and no news
		c.locks.own()[lock.Key] = lock
		g.maxRev = max(g.maxRev, lock.Rev)
		c.changedLocks()
	}
	switch {
	case lock.Session != "" && lock.Session != c.session:
		c.out.Sessions = append(c.out.Sessions, lock.Session)
	case lock.Session == "" && lock.Next == c.session && lock.Next != "":
		c.out.Reserved = append(c.out.Reserved, lock.Key)
	}
}

// Correct takes what a linearizable read or a refused write found as the truth, also when that is a lower revision (a backup restored) or
// nothing at all (deleted manually).
func (c *Cache) Correct(key record.Key, found *record.Lock) {
	if c.locks.all[key] != nil {
		delete(c.locks.own(), key)
		c.changedLocks()
	}
	if found != nil {
		c.Put(found)
	}
}

func (c *Cache) changedLocks() { c.out.Locks, c.out.Changed = true, true }
