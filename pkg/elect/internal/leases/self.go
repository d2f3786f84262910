package leases

import (
	"github.com/shardctl/shardctl/pkg/elect/protocol"
	"github.com/shardctl/shardctl/pkg/elect/record"
	"github.com/shardctl/shardctl/pkg/store"
)

// Self is the session on whose behalf keys are held.
type Self struct {
	IDs      *record.WriterIDs
	Instance string
}

// unowned is the lock without an owner, written over revision ifRev.
func (s Self) unowned(lock record.Lock, ifRev, floor int64, m protocol.Moment) store.Change {
	lock.Session, lock.Next, lock.Instance, lock.Since = "", "", "", m.Clock
	lock.Rev, lock.WriterID = protocol.NextRev(ifRev, max(m.Rev, floor)), s.IDs.Next()
	return store.Change{IfRev: ifRev, Doc: lock.Doc()}
}
