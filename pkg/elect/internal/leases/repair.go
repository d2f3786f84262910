package leases

import (
	"github.com/shardctl/shardctl/pkg/elect/protocol"
	"github.com/shardctl/shardctl/pkg/elect/record"
	"github.com/shardctl/shardctl/pkg/store"
)

// Free is the change that frees a lock which names this session and is not held here. ok is false when it may not
// be written yet.
func (t *Table) Free(lock record.Lock, m protocol.Moment) (change store.Change, ok bool) {
	if lock.Session != t.self.IDs.Session || t.keys[lock.Key] != nil || !m.Valid ||
		!t.seen.facts(t.self, Claim{Lock: lock}, m).Claimable(t.p) {
		return store.Change{}, false
	}
	return t.self.unowned(lock, lock.Rev, 0, m), true
}

// Restore is the change that creates a deleted lock again, without an owner. mark is the group's high-water mark. ok
// is false when it may not be written yet, or need not.
func (t *Table) Restore(lock record.Lock, mark int64, m protocol.Moment) (change store.Change, ok bool) {
	if t.keys[lock.Key] != nil || !m.Valid {
		return store.Change{}, false
	}
	floor := max(lock.Rev, mark) + 1
	lock.Suspended = false
	return t.self.unowned(lock, 0, floor, m), true
}

// Decline is the change that clears a reservation for this session which it cannot take. ok is false when there is
// none.
func (t *Table) Decline(lock record.Lock, m protocol.Moment) (change store.Change, ok bool) {
	if lock.Session != "" || lock.Next != t.self.IDs.Session || t.keys[lock.Key] != nil {
		return store.Change{}, false
	}
	ifRev := lock.Rev
	lock.Next, lock.Rev, lock.WriterID = "", protocol.NextRev(ifRev, m.Rev), t.self.IDs.Next()
	return store.Change{IfRev: ifRev, Doc: lock.Doc()}, true
}
