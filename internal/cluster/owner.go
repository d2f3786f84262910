package cluster

import (
	"cmp"

	"github.com/shardctl/shardctl/internal/record"
)

// Owner is who owns a key.
type Owner struct {
	Session  string
	Instance string // that of the lock until the session's member has been read
	Address  string // where requests for the key go, HOST:PORT; empty: it takes none, or it is not known yet
	Token    int64
}

// SessionOf returns the session that a lock names; nil if it names none, or one that is not in the view. Callers with
// many locks keep a map.
func (v *View) SessionOf(lock *record.Lock) *Session {
	for i := range v.Sessions {
		if v.Sessions[i].ID == lock.Session {
			return &v.Sessions[i]
		}
	}
	return nil
}

// Orphaned reports whether the key of a lock is an orphan: the lock names an owner, and that session is dead or is not
// in the view. s is that session, nil if it is not in the view.
//
// Plans, requests of operators and pages ask this. It is an answer from a snapshot, so no claim may rest on it: whether
// a key may be claimed is decided by the elector at that moment, which waits for sessions that it has not seen and for
// remote leases of the dead.
func (v *View) Orphaned(lock *record.Lock, s *Session) bool {
	return lock.Session != "" && (s == nil || s.State == record.Dead)
}

// Owner is who owns a key: the session that its lock names, until that is marked dead. A session that drains owns its
// keys until it has released them. It returns false where
//
//   - the lock names no session, or the key is an orphan;
//   - the session is this process's, and the key waits because the lease is over: another may have it by now.
//
// It is a hint. The lease of another process may be over without this one knowing: its token says so where it counts.
func (v *View) Owner(key record.Key) (Owner, bool) {
	lock := v.Lock(key)
	return v.OwnerAt(&lock, v.SessionOf(&lock))
}

// OwnerAt is [View.Owner] for callers that have the lock, and the session that it names; nil: that is not known.
func (v *View) OwnerAt(lock *record.Lock, s *Session) (Owner, bool) {
	if lock.Session == "" || v.Orphaned(lock, s) {
		return Owner{}, false
	}
	if held, own := v.Held[lock.Key]; own && s.ID == v.Session && held.Phase == PhaseWaiting {
		return Owner{}, false
	}
	return Owner{
		Session: s.ID, Instance: cmp.Or(s.Member.Instance, lock.Instance), Address: s.Member.AppAddress, Token: lock.Token,
	}, true
}
