package elect

import (
	"time"

	"github.com/shardctl/shardctl/pkg/elect/protocol"
)

// claim begins to take a key: lock is as read. The caller has checked nothing.
func (e *Elector) claim(lock Lock, opts LockOptions, run Runnable, started chan<- lockResult) {
	l := &e.loop
	tell := func(ok bool, err error) {
		if started != nil {
			started <- lockResult{ok, err}
		}
	}
	if h := l.keys[lock.Key]; h != nil {
		e.claimHeld(h, opts, run, tell)
		return
	}
	if err := e.mayClaim(lock.Key, opts); err != nil {
		tell(false, err)
		return
	}
	if !e.claimable(lock) {
		tell(false, nil)
		return
	}
	h := &holding{key: lock.Key, lock: lock, run: run, opts: opts, started: started, from: lock.Session, status: lock.Status}
	if q := l.peers[lock.Session]; q != nil {
		h.dying = q.last
	}
	if lock.Next == l.session.id {
		h.handedAt = lock.Since
	}
	if h.floor = opts.floor; lock.Rev == 0 {
		if g := l.mirror.groups[lock.Key.Group()]; g != nil {
			h.floor = max(h.floor, g.maxRev+1) // it may have been there once
		}
	}
	l.keys[lock.Key] = h
	l.owned[lock.Key.Group()]++
	e.stepKey(h, protocol.KeyEvent{Kind: protocol.KeyClaim, Rev: lock.Rev})
}

// claimHeld locks a key again that is held here already.
func (e *Elector) claimHeld(h *holding, opts LockOptions, run Runnable, tell func(bool, error)) {
	if !opts.Reentrant || h.m.Phase != protocol.Running || !e.loop.session.m.Valid(e.p, e.clock.Now()) {
		tell(false, nil)
		return
	}
	e.start(h, run)
	tell(true, nil)
}

// mayClaim says why no key may be claimed now, or not this one.
func (e *Elector) mayClaim(key Key, opts LockOptions) error {
	l := &e.loop
	switch {
	case l.closing, l.drain:
		return ErrClosed
	case !l.session.m.Valid(e.p, e.clock.Now()):
		return ErrUnavailable
	case opts.AnyCap:
		return nil
	}
	m := l.session.member
	if limit, ok := m.Caps[key.Group()]; ok && l.owned[key.Group()] >= limit {
		return ErrCapReached
	}
	if m.MaxTasks > 0 && len(l.keys) >= m.MaxTasks {
		return ErrCapReached
	}
	return nil
}

// holdOff is how long others leave a key alone that is reserved for a live session.
const holdOff = time.Second

// claimable says whether the lock as read may be claimed: nobody owns it, its owner is dead, or it says me already, and it
// is not reserved for another who is not known to be dead.
func (e *Elector) claimable(lock Lock) bool {
	me := e.loop.session.id
	if lock.Next != "" && lock.Next != me && lock.Session == "" {
		q := e.loop.peers[lock.Next]
		dead := q != nil && q.m.Dead()
		since := e.storeNow() - lock.Since // far below zero where the store's clock was set back
		if !dead && -holdOff.Milliseconds() < since && since < holdOff.Milliseconds() && e.heldOff(lock) {
			return false
		}
	}
	switch lock.Session {
	case "":
		return true
	case me:
		return e.adoptable(lock)
	}
	return e.freed(lock.Session, lock.Key)
}

// heldOff says whether a key that is reserved for another is still to be left alone. It is, for holdOff since that was first asked here:
// the store's clock may stand still, where it was set back below the revisions given.
func (e *Elector) heldOff(lock Lock) bool {
	now := e.clock.Now()
	first, known := e.loop.heldOff[lock.Key]
	if known && first.rev == lock.Rev {
		return !now.Reached(first.since, holdOff)
	}
	for key, old := range e.loop.heldOff {
		if now.Reached(old.since, time.Minute) {
			delete(e.loop.heldOff, key)
		}
	}
	e.loop.heldOff[lock.Key] = givenByHand{lock.Rev, now}
	return true
}

// givenByHand is a lock that names this session and that it did not write.
type givenByHand struct {
	rev   int64
	since protocol.Instant
}

// adoptable says whether a lock that names this session may be taken. A claim of its own bears its own stamp. Another's stamp says that
// somebody wrote the name by hand, over an owner who may run the key and finds out within T/2: it is left alone for T.
func (e *Elector) adoptable(lock Lock) bool {
	l := &e.loop
	if lock.WriterID.Session == l.session.id {
		return true
	}
	now := e.clock.Now()
	given, known := l.given[lock.Key]
	if !known || given.rev != lock.Rev {
		if l.given == nil {
			l.given = map[Key]givenByHand{}
		}
		l.given[lock.Key] = givenByHand{lock.Rev, now}
		e.log.Info("A lock names this session, which did not claim it: leaving it alone for a lease", "key", lock.Key, "session", l.session.id)
		return false
	}
	if !now.Reached(given.since, e.p.T) {
		return false
	}
	delete(l.given, lock.Key)
	return true
}
