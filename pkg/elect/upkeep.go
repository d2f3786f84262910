package elect

import (
	"context"
	"time"

	"github.com/shardctl/shardctl/pkg/elect/protocol"
	"github.com/shardctl/shardctl/pkg/elect/store"
)

// count compares, every T/4, the number of locks that name this session with the number of keys it knows to hold, and
// looks closer when they differ twice in a row: a lost write, or a hand in the database.
func (e *Elector) count(now protocol.Instant) {
	l := &e.loop
	if l.counting || l.session.m.Phase != protocol.Open || !now.Reached(l.lastCount, e.p.T/4) {
		return
	}
	l.counting, l.lastCount = true, now
	id, before := l.session.id, make(map[*holding]bool, len(l.keys))
	for _, h := range l.keys {
		before[h] = h.named()
	}
	e.beside("count", func(ctx context.Context) (func(), error) {
		res, err := e.store.List(ctx, store.KindLock, store.Query{Sessions: []string{id}, CountOnly: true})
		return func() {
			l.counting = false
			if err != nil || l.session.id != id {
				return
			}
			total := int(res.Total)
			least, most := e.bounds(before)
			if least <= total && total <= most {
				if least == most {
					l.miscount = 0
				}
				return // where keys are changing hands it proves nothing either way
			}
			if l.miscount++; l.miscount >= 2 {
				l.miscount = 1 // should this look fail, the next count that differs is enough for another
				e.reconcile(id)
			}
		}, err
	})
}

// bounds is how many locks may have named this session when they were counted: at least those that were sure to do so before and still
// are, at most all that may have at either time. A replica is seldom without a claim or a release under way while answers are
// lost, and must notice all the same.
func (e *Elector) bounds(before map[*holding]bool) (least, most int) {
	most = len(before)
	for _, h := range e.loop.keys {
		sure, known := before[h]
		switch {
		case !known:
			most++
		case sure && h.named():
			least++
		}
	}
	return least, most
}

// named says whether the key's lock is sure to name this session, unless somebody wrote it by hand.
func (h *holding) named() bool {
	switch h.m.Phase {
	case protocol.Claiming, protocol.Idle:
		return h.m.Token > 0
	case protocol.Running, protocol.Stopping:
		return !h.m.Lost
	case protocol.Free, protocol.Releasing:
	}
	return false
}

// reconcile lists the locks that name this session: what is not held here is released (or claimed anew by whoever
// wants it), what runs and is not listed is looked at again.
func (e *Elector) reconcile(id string) {
	e.log.Info("The locks do not name what is held here: looking at each", "session", id)
	e.besideLong("reconcile", func(ctx context.Context) (func(), error) {
		docs, err := e.listAll(ctx, store.Query{Sessions: []string{id}})
		return func() {
			if err != nil || e.loop.session.id != id {
				return
			}
			listed := make(map[Key]bool, len(docs))
			for _, d := range docs {
				lock := e.mirrorDoc(d)
				listed[lock.Key] = true
				if e.loop.keys[lock.Key] == nil {
					e.adoptToRelease(lock)
				}
			}
			for key, h := range e.loop.keys {
				if !listed[key] && h.m.Phase == protocol.Running && h.m.Op == protocol.NoOp {
					e.verify(h)
				}
			}
		}, err
	})
}

// adoptToRelease takes a lock that says me and is not running here through a claim to an orderly release.
func (e *Elector) adoptToRelease(lock Lock) {
	opts := LockOptions{AnyCap: true}
	e.claim(lock, opts, Go(func(context.Context, *Lease) error { return nil }), nil)
	if h := e.loop.keys[lock.Key]; h != nil {
		e.giveUp(h, "", lock.Suspended, "")
	}
}

// verify reads one lock that should be ours, and lets go when it is not.
func (e *Elector) verify(h *holding) {
	id := e.loop.session.id
	e.beside("read", func(ctx context.Context) (func(), error) {
		res, err := e.store.Read(ctx, store.KindLock, string(h.key))
		return func() {
			if err != nil || e.loop.keys[h.key] != h || h.m.Op != protocol.NoOp {
				return
			}
			switch {
			case len(res.Docs) == 0:
				e.deleted(h)
			case res.Docs[0].Session == id:
				return
			default:
				e.correct(h.key, &res.Docs[0])
			}
			e.stepKey(h, protocol.KeyEvent{Kind: protocol.KeyLose})
		}, err
	})
}

// deleted notes that the lock of a key held here is not there any more.
func (e *Elector) deleted(h *holding) {
	e.correct(h.key, nil)
	h.gone = h.m.Token > 0
}

// restore creates a deleted lock again, owned by nobody, once nothing of it runs here. Others read what has changed, and an absent
// lock is no change: they would leave the key for ever to an owner that no longer has it. While the lease is not valid nothing can be
// claimed: it is made later.
func (e *Elector) restore(lock Lock) {
	if !e.loop.session.m.Valid(e.p, e.clock.Now()) {
		e.loop.absent[lock.Key] = lock
		return
	}
	opts := LockOptions{AnyCap: true, floor: lock.Rev + 1}
	lock.Rev, lock.Session, lock.Next, lock.Suspended = 0, "", "", false
	e.claim(lock, opts, Go(func(context.Context, *Lease) error { return nil }), nil)
	if h := e.loop.keys[lock.Key]; h != nil {
		e.giveUp(h, "", false, "")
	}
}

const (
	cleanEvery  = 5 * time.Minute
	cleanAtOnce = 500
)

// clean removes, now and then, sessions dead for an hour and the oldest events.
func (e *Elector) clean(now protocol.Instant) {
	l := &e.loop
	if l.session.m.Phase != protocol.Open || !now.Reached(l.cleaned, cleanEvery) {
		return
	}
	l.cleaned = now
	e.forgetDead(now)
	at := e.storeNow()
	e.besideLong("clean", func(ctx context.Context) (func(), error) {
		removed, err := e.removeSessions(ctx, at)
		if err == nil {
			err = e.removeEvents(ctx, at)
		}
		return func() {
			for _, id := range removed {
				delete(l.mirror.members, id)
			}
		}, err
	})
}

// forgetDead forgets sessions that have been dead for long, whoever removes them from the store. One that a lock still
// names is read again when somebody asks for it.
func (e *Elector) forgetDead(now protocol.Instant) {
	for id, q := range e.loop.peers {
		if q.m.Dead() && now.KillerElapsed(q.m.DeadAt) > store.KindSession.Info().Retention {
			delete(e.loop.peers, id)
		}
	}
}

// removeSessions removes the sessions that have been dead for long and that no lock names any more.
func (e *Elector) removeSessions(ctx context.Context, now int64) ([]string, error) {
	docs, _, err := e.list(ctx, store.KindSession, store.Query{States: []string{string(Dead)}, Limit: cleanAtOnce})
	if err != nil {
		return nil, err
	}
	var removed []string
	for _, d := range docs {
		s, err := SessionFrom(d)
		switch {
		case err != nil || s.Died == 0 || s.Died > now:
			if err := e.noteDeath(ctx, s, now); err != nil {
				return removed, err
			}
			continue
		case d.Expires == 0 || d.Expires > now:
			continue
		}
		gone, err := e.removeSession(ctx, d)
		if err != nil {
			return removed, err
		}
		if gone {
			removed = append(removed, d.ID)
		}
	}
	return removed, nil
}

// noteDeath gives a dead session the time of its death when it has none, or none that can be: somebody wrote it dead by hand.
func (e *Elector) noteDeath(ctx context.Context, s Session, now int64) error {
	var stamp store.WriterID
	if err := e.ask(ctx, func() { stamp = e.loop.session.stamp() }); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, e.p.Op)
	defer cancel()
	ifRev := s.Rev
	s.Rev, s.WriterID, s.Died = protocol.DeadRev(ifRev, e.revs.now()), stamp, now
	outs, err := e.store.Apply(ctx, store.Change{IfRev: ifRev, Doc: s.Doc()})
	return firstError(outs, err)
}

// removeSession removes one dead session and its member, unless a lock still names it.
func (e *Elector) removeSession(ctx context.Context, d store.Doc) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, e.p.Op)
	defer cancel()
	named, err := e.store.List(ctx, store.KindLock, store.Query{Sessions: []string{d.ID}, CountOnly: true})
	if err != nil || named.Total > 0 {
		return false, err
	}
	member, err := e.store.Read(ctx, store.KindMember, d.ID)
	if err != nil {
		return false, err
	}
	changes := []store.Change{{Op: store.Delete, IfRev: d.Rev, Doc: store.Doc{Kind: store.KindSession, ID: d.ID}}}
	for _, m := range member.Docs {
		changes = append(changes, store.Change{Op: store.Delete, IfRev: m.Rev, Doc: store.Doc{Kind: store.KindMember, ID: d.ID}})
	}
	outs, err := e.store.Apply(ctx, changes...)
	return err == nil, firstError(outs, err)
}

// removeEvents removes those that have expired, and the oldest of too many.
func (e *Elector) removeEvents(ctx context.Context, now int64) error {
	ctx, cancel := context.WithTimeout(ctx, e.p.Op)
	defer cancel()
	if _, err := store.Clean(ctx, e.store, store.KindEvent, now, cleanAtOnce); err != nil {
		return err
	}
	res, err := e.store.List(ctx, store.KindEvent, store.Query{CountOnly: true})
	if err != nil || res.Total <= keepEvents {
		return err
	}
	docs, _, err := e.list(ctx, store.KindEvent, store.Query{Limit: min(int(res.Total)-keepEvents, cleanAtOnce), NoBody: true})
	if err != nil {
		return err
	}
	changes := make([]store.Change, 0, len(docs))
	for _, d := range docs {
		changes = append(changes, store.Change{Op: store.Delete, IfRev: d.Rev, Doc: store.Doc{Kind: store.KindEvent, ID: d.ID}})
	}
	_, err = e.store.Apply(ctx, changes...)
	return err
}
