package status

import (
	"slices"

	"github.com/shardctl/shardctl/pkg/api"
)

func lockCollection() collection[api.Lock] {
	return collection[api.Lock]{
		path:   "/api/v1/locks",
		params: []string{"group", "instance", "kind", "q"},
		items:  func(s *Snapshot) []api.Lock { return s.Locks },
		id:     lockID,
		match: func(q *query, l *api.Lock) bool {
			return q.inGroup(l.Group) && q.ofKind(l.Kind) && holdsOrWaits(q, l) && lockHas(q, l)
		},
		shown: shownLock,
		same:  sameLock,
	}
}

// lockID distinguishes the key of a task and a lock of a program with the same name.
func lockID(l *api.Lock) string {
	if l.Kind.OfProgram() {
		return l.Key + "\x00"
	}
	return l.Key
}

// wantsMutexes says whether locks of programs can be among what is asked for. They are in no group.
func (q *query) wantsMutexes() bool {
	return len(q.groups) == 0 && (len(q.kinds) == 0 || slices.ContainsFunc(q.kinds, api.LockKind.OfProgram))
}

func (q *query) ofKind(k api.LockKind) bool { return len(q.kinds) == 0 || slices.Contains(q.kinds, k) }

func holdsOrWaits(q *query, l *api.Lock) bool {
	return q.onInstance(l.Instance) ||
		slices.ContainsFunc(l.Holders, func(h api.LockHolder) bool { return q.onlyInstance(h.Instance) }) ||
		slices.ContainsFunc(l.Queue, func(w api.LockWaiter) bool { return q.onlyInstance(w.Instance) })
}

func lockHas(q *query, l *api.Lock) bool {
	return q.has(l.Key, l.Instance, l.Reason, l.Message) ||
		slices.ContainsFunc(l.Holders, func(h api.LockHolder) bool { return q.has(h.Instance) }) ||
		slices.ContainsFunc(l.Queue, func(w api.LockWaiter) bool { return q.has(w.Instance) })
}

// shownLock is a lock with its holders, and the first of those who wait. Snapshots keep no holders of tasks: they would
// be the larger part of a hundred thousand records.
func shownLock(l *api.Lock, _ bool) *api.Lock {
	shown := *l
	if !l.Kind.OfProgram() {
		shown.Limit = 1
		if l.Session != "" {
			shown.Holders = api.LockHolders{{
				Instance: l.Instance, Session: l.Session, FencingToken: l.FencingToken, HeldSince: l.OwnedSince,
			}}
		}
	}
	shown.Queue = l.Queue[:min(len(l.Queue), api.MaxQueueShown)]
	return &shown
}

func sameLock(a, b *api.Lock) bool {
	return a.Key == b.Key && sameOwner(a.Owner, b.Owner) && a.Reason == b.Reason && a.Message == b.Message &&
		a.Next == b.Next && a.Suspended == b.Suspended && a.Kind == b.Kind && a.Limit == b.Limit &&
		a.KeptUntil.Equal(b.KeptUntil.Time) && slices.EqualFunc(a.Holders, b.Holders, sameHolder) &&
		a.Waiting == b.Waiting && slices.Equal(a.Queue, b.Queue)
}

func sameOwner(a, b api.Owner) bool {
	since := a.OwnedSince.Equal(b.OwnedSince.Time)
	a.OwnedSince, b.OwnedSince = api.Time{}, api.Time{}
	return a == b && since
}

func sameHolder(a, b api.LockHolder) bool {
	since := a.HeldSince.Equal(b.HeldSince.Time)
	a.HeldSince, b.HeldSince = api.Time{}, api.Time{}
	return a == b && since
}
