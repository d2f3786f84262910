package elect

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/shardctl/shardctl/pkg/elect/protocol"
	"github.com/shardctl/shardctl/pkg/elect/store"
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
	if err := e.ask(ctx, func() { e.claim(lock, opts, &goRun{run: run, limit: opts.MaxHold}, started) }); err != nil {
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
	return store.ValidateTexts(store.Doc{ID: string(key)})
}

func (e *Elector) readLock(ctx context.Context, key Key) (Lock, error) {
	ctx, cancel := context.WithTimeout(ctx, e.p.Op)
	defer cancel()
	res, err := e.store.Read(ctx, store.KindLock, string(key))
	if err != nil {
		return Lock{}, fmt.Errorf("lock %s: read it: %w", key, err)
	}
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
	docs, err := e.listAll(ctx, store.Query{NoBody: true})
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
