package elect

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/shardctl/shardctl/pkg/elect/protocol"
)

// Lock implements [Elect].
func (e *Elector) Lock(ctx context.Context, key Key, run RunFunc) (bool, error) {
	return e.LockWith(ctx, key, LockOptions{}, run)
}

// LockWith is Lock with options. When the wait is over it returns false, with the reason if there was one beside another's holding the key
// (ErrCapReached, ErrUnavailable); when ctx has ended, its cause. Waiters are woken by a release where the store can tell, and look again with
// growing pauses (50 ms to 1 s, with jitter) where it cannot. There is no order among waiters.
func (e *Elector) LockWith(ctx context.Context, key Key, opts LockOptions, run RunFunc) (bool, error) {
	if err := checkClaim(key, opts); err != nil {
		return false, fmt.Errorf("lock %.80q: %w", key, err)
	}
	outer := ctx
	if opts.Wait > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, opts.Wait)
		defer cancel()
	}
	pause := 50 * time.Millisecond
	var room *waitRoom
	if opts.Wait != 0 {
		if err := e.ask(ctx, func() { room = e.enter(key.Group()) }); err != nil {
			return false, err
		}
		defer e.post(func() { e.leave(room) })
	}
	for tried, last := false, error(nil); ; tried = true {
		woken := room.woken()
		ok, err := e.tryLock(ctx, key, opts, run)
		again := err == nil || errors.Is(err, ErrUnavailable) || errors.Is(err, ErrCapReached)
		switch {
		case ok:
			return true, nil
		case outer.Err() != nil:
			return false, fmt.Errorf("lock %s: %w", key, context.Cause(outer))
		case ctx.Err() != nil && tried:
			return false, last // the wait ended in the middle of a try: the one before tells why
		case !again, opts.Wait == 0, ctx.Err() != nil:
			return false, err
		}
		last = err
		timer := time.NewTimer(pause/2 + rand.N(pause/2)) //nolint:gosec // jitter, not a secret
		select {
		case <-woken:
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			if outer.Err() == nil {
				return false, last
			}
		case <-e.over:
		}
		timer.Stop()
		pause = min(2*pause, time.Second)
	}
}

// waitRoom is where those wait who want a key of one group. It is there for as long as somebody waits.
type waitRoom struct {
	group string
	wake  broadcast
	n     int // touched by the loop only
}

// woken returns a channel that is closed when something of the group changes.
func (r *waitRoom) woken() <-chan struct{} {
	if r == nil {
		return nil
	}
	return r.wake.wait()
}

func (e *Elector) enter(group string) *waitRoom {
	room := e.loop.waiting[group]
	if room == nil {
		room = &waitRoom{group: group}
		room.wake.init()
		e.loop.waiting[group] = room
	}
	room.n++
	return room
}

func (e *Elector) leave(room *waitRoom) {
	if room.n--; room.n == 0 {
		delete(e.loop.waiting, room.group)
	}
}

// tryLock reads the lock and tries to claim it, once.
func (e *Elector) tryLock(ctx context.Context, key Key, opts LockOptions, run RunFunc) (bool, error) {
	if err := e.waitOpen(ctx); err != nil {
		return false, err
	}
	lock, err := e.readLock(ctx, key)
	if err != nil {
		return false, err
	}
	if err := e.waitKnown(ctx, lock.Session); err != nil {
		return false, err
	}
	started := make(chan lockResult, 1)
	if err := e.ask(ctx, func() { e.claim(lock, opts, run, started) }); err != nil {
		return false, err
	}
	gone := ctx.Done()
	for {
		select {
		case res := <-started:
			return res.ok, res.err
		case <-e.over:
			return false, ErrClosed
		case <-gone:
			gone = nil
			e.post(func() { e.abandon(key, started) })
		}
	}
}

// abandon gives up a claim that nobody waits for any more. One that has been sent is still seen through: its answer decides
// whether there is something to release.
func (e *Elector) abandon(key Key, started chan<- lockResult) {
	h := e.loop.keys[key]
	if h == nil || h.started != started {
		return // answered
	}
	h.started = nil
	started <- lockResult{}
	e.giveUp(h, "", false, "")
}

// checkClaim says why a claim could never be written. One such in a batch would hold up all the others in it.
func checkClaim(key Key, opts LockOptions) error {
	if key == "" {
		return errors.New("key: must not be empty")
	}
	if len(opts.Message) > MaxText {
		return fmt.Errorf("message: %d bytes: at most %d are allowed: %w", len(opts.Message), MaxText, ErrTooLarge)
	}
	return validateTexts(Doc{ID: string(key)})
}

func (e *Elector) readLock(ctx context.Context, key Key) (Lock, error) {
	ctx, cancel := context.WithTimeout(ctx, e.p.Op)
	defer cancel()
	res, err := e.store.Read(ctx, KindLock, string(key))
	if err != nil {
		return Lock{}, fmt.Errorf("lock %s: read it: %w", key, err)
	}
	e.learnClock(res.Now)
	if len(res.Docs) == 0 {
		return Lock{Key: key}, nil
	}
	lock, err := LockFrom(res.Docs[0])
	if err != nil { // written by hand to nonsense: who owns it still counts, and the next claim mends the rest
		e.post(func() { e.nonsense(res.Docs[0], err) })
	}
	return lock, nil
}

// waitOpen waits until the session is acknowledged and valid.
func (e *Elector) waitOpen(ctx context.Context) error {
	return e.waitFor(ctx, func() bool { return e.loop.closing || e.loop.session.m.Valid(e.p, e.clock.Now()) })
}

// waitKnown waits until it is known whether the session lives.
func (e *Elector) waitKnown(ctx context.Context, session string) error {
	if session == "" {
		return nil
	}
	return e.waitFor(ctx, func() bool {
		return session == e.loop.session.id || e.wantPeer(session).m.Known
	})
}

// waitFor waits until ready, asked in the loop whenever the view has changed, says yes.
func (e *Elector) waitFor(ctx context.Context, ready func() bool) error {
	for {
		changed := e.Changed()
		var yes bool
		if err := e.ask(ctx, func() { yes = ready() }); err != nil || yes {
			return err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", ErrUnavailable, context.Cause(ctx))
		case <-e.over:
			return ErrClosed
		}
	}
}

// Unlock implements [Elect].
func (e *Elector) Unlock(ctx context.Context, key Key) error {
	done := make(chan struct{})
	held := false
	err := e.ask(ctx, func() {
		h := e.loop.keys[key]
		if held = h != nil; held {
			h.stops = append(h.stops, done)
			e.giveUp(h, "", false, "")
		}
	})
	switch {
	case err != nil:
		return err
	case !held:
		return fmt.Errorf("unlock %s: %w", key, ErrNotHeld)
	}
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-e.over:
		return nil
	}
}

// HoldingKeys implements [Elect].
func (e *Elector) HoldingKeys() []Key {
	if !e.started.Load() {
		return nil
	}
	var keys []Key
	_ = e.ask(context.Background(), func() { // after the end nothing is held
		for key, h := range e.loop.keys {
			if h.m.Phase == protocol.Running || h.m.Phase == protocol.Stopping {
				keys = append(keys, key)
			}
		}
	})
	return sortKeys(keys)
}

// LockedKeys implements [Elect]. A key whose owner is dead and not yet taken over is still listed.
func (e *Elector) LockedKeys(ctx context.Context) ([]Key, error) {
	docs, err := e.listAll(ctx, Query{NoBody: true})
	if err != nil {
		return nil, fmt.Errorf("list locks: %w", err)
	}
	var keys []Key
	for _, d := range docs {
		if d.Session != "" {
			keys = append(keys, Key(d.ID))
		}
	}
	return sortKeys(keys), nil
}

// Holder tells who holds a key. ok is false when nobody does.
func (e *Elector) Holder(ctx context.Context, key Key) (holder Holder, ok bool, err error) {
	lock, err := e.readLock(ctx, key)
	if err != nil || lock.Session == "" {
		return Holder{}, false, err
	}
	if err := e.waitKnown(ctx, lock.Session); err != nil {
		return Holder{}, false, err
	}
	holder = Holder{Key: key, Instance: lock.Instance, Session: lock.Session, Token: lock.Token, Since: time.UnixMilli(lock.Since)}
	err = e.ask(ctx, func() { holder.Alive = lock.Session == e.loop.session.id || !e.freed(lock.Session, key) })
	return holder, true, err
}

// Close implements [Elect].
func (e *Elector) Close(ctx context.Context) error {
	if !e.started.Load() {
		return nil
	}
	e.post(e.close)
	select {
	case <-e.over:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("close: keys are still held: %w", context.Cause(ctx))
	}
}

// close begins to give everything up. The keys that are not handed over by somebody who knows better are released for
// whoever comes.
func (e *Elector) close() {
	l := &e.loop
	if l.closing {
		return
	}
	l.closing, l.closeAt, l.viewDirty = true, e.clock.Now(), true
	e.stepSession(protocol.SessionEvent{Kind: protocol.SessionDrain}, e.clock.Now())
	for _, h := range l.keys {
		e.giveUp(h, "", false, ReasonShutdown)
	}
}

// Drain says draining in the session's document, so that others take no notice of this instance when they spread keys,
// and takes no new keys. What is held stays held until it is given up, one by one or by Close. The View says Draining once
// the document does, or after T/40 when the store does not answer.
func (e *Elector) Drain(ctx context.Context) error {
	return e.ask(ctx, func() {
		if l := &e.loop; !l.drain {
			l.drain, l.drainAt = true, e.clock.Now()
		}
		e.stepSession(protocol.SessionEvent{Kind: protocol.SessionSayDraining}, e.clock.Now())
	})
}

// Claim asks for keys, from what the View shows of their locks; run is called for each one won. It does not wait: how it
// went shows in the View. Keys that are held already, or may not be claimed, are left out.
func (e *Elector) Claim(ctx context.Context, keys []Key, opts LockOptions, run func(Key) RunFunc) error {
	seen := opts.Seen
	opts.Seen, opts.adopt = nil, true // a key that is held must not keep an old view in memory
	for _, key := range keys {
		if err := checkClaim(key, opts); err != nil {
			return fmt.Errorf("claim %.80q: %w", key, err)
		}
	}
	return e.ask(ctx, func() {
		for _, key := range keys {
			lock := Lock{Key: key}
			if g := e.loop.mirror.groups[key.Group()]; g != nil {
				if known, ok := g.locks[key]; ok {
					lock = known
				}
			}
			if seen != nil && seen.Locks[key].Rev != lock.Rev {
				continue // a new view is on its way, and wakes whoever decides
			}
			e.claim(lock, opts, run(key), nil)
		}
	})
}

// TakeReserved makes keys that are handed over to this session be claimed the moment that is seen, without anybody asking:
// the giver waits, and every step on the way counts. run makes the work of a key; it is called in the elector's loop, must not
// block, and returns nil for a key that this instance does not know.
func (e *Elector) TakeReserved(ctx context.Context, run func(Key) RunFunc) error {
	return e.ask(ctx, func() { e.loop.takes = run })
}

// takeReserved claims what was handed over. What the caps have no room for is left to whoever declines it.
func (e *Elector) takeReserved() {
	l := &e.loop
	keys := l.reserved
	l.reserved = nil
	if l.takes == nil {
		return
	}
	for _, key := range keys {
		g := l.mirror.groups[key.Group()]
		if g == nil {
			continue
		}
		lock := g.locks[key]
		if lock.Session != "" || lock.Next != l.session.id || l.keys[key] != nil {
			continue
		}
		if run := l.takes(key); run != nil {
			e.claim(lock, LockOptions{adopt: true}, run, nil)
		}
	}
}

// HandOver is one key given up on purpose.
type HandOver struct {
	Key    Key
	Next   string // the session it is reserved for; empty: for nobody
	Park   bool   // leave it out of the sweeps
	Reason Reason
}

// GiveUp asks for the release of keys. It does not wait. A key that is being given up already keeps its first
// reservation.
func (e *Elector) GiveUp(ctx context.Context, moves ...HandOver) error {
	return e.ask(ctx, func() {
		for _, m := range moves {
			if h := e.loop.keys[m.Key]; h != nil {
				e.giveUp(h, m.Next, m.Park, m.Reason)
			}
		}
	})
}

// Decline clears reservations that this instance cannot take, so that others need not wait.
func (e *Elector) Decline(ctx context.Context, keys ...Key) error {
	return e.ask(ctx, func() { e.decline(slices.Clone(keys)) })
}

func (e *Elector) decline(keys []Key) {
	var changes []Change
	for _, key := range keys {
		g := e.loop.mirror.groups[key.Group()]
		if g == nil {
			continue
		}
		lock, ok := g.locks[key]
		if !ok || lock.Session != "" || lock.Next != e.loop.session.id || e.loop.keys[key] != nil {
			continue
		}
		ifRev := lock.Rev
		lock.Next, lock.Rev, lock.Stamp = "", protocol.NextRev(ifRev, e.storeNow()), e.loop.session.stamp()
		changes = append(changes, Change{IfRev: ifRev, Doc: lock.Doc()})
		e.bump(key.Group())
	}
	if len(changes) == 0 {
		return
	}
	e.beside("decline", func(ctx context.Context) (func(), error) {
		outs, err := e.store.Apply(ctx, changes...)
		return func() {
			for _, key := range keys {
				e.loop.mirror.touch(key.Group())
			}
		}, firstError(outs, err)
	})
}
