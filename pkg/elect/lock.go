package elect

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/shardctl/shardctl/pkg/elect/cluster"
	"github.com/shardctl/shardctl/pkg/elect/internal/engine"
	"github.com/shardctl/shardctl/pkg/elect/record"
	"github.com/shardctl/shardctl/pkg/internal/releasing"
	"github.com/shardctl/shardctl/pkg/store"
)

// Lock implements [Elect].
func (e *Elector) Lock(ctx context.Context, key Key, run RunFunc) (bool, error) {
	return e.LockWith(ctx, key, LockOptions{}, run)
}

// LockWith is Lock with options. When the wait is over it returns false. The error is the reason if there was one apart
// from another's holding the key (ErrCapReached, ErrUnavailable); when ctx has ended, its cause. Waiters are woken by a
// release where the store can notify. Where it cannot they look again with growing pauses (50 ms to 1 s, with jitter).
// There is no order among waiters. ErrInsideRun says that it would wait for the run that calls it.
func (e *Elector) LockWith(ctx context.Context, key Key, opts LockOptions, run RunFunc) (bool, error) {
	if err := checkClaim(key, opts); err != nil {
		return false, fmt.Errorf("lock %.80q: %w", key, err)
	}
	wait := opts.Wait > 0 || opts.WaitForever
	outer := ctx
	if opts.Wait > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, opts.Wait)
		defer cancel()
	}
	var group *engine.WaiterGroup
	if wait {
		if err := e.core.Box.Ask(ctx, func() { group = e.node.Waiters.Enter(engine.CounterOf(key)) }); err != nil {
			return false, err
		}
		defer e.core.Box.PostSoon(func() { e.node.Waiters.Leave(group) })
	}
	own, inside := runKey(ctx, e.core)
	pause := 50 * time.Millisecond
	for tried, last := false, error(nil); ; tried = true {
		var woken <-chan struct{}
		if wait {
			woken = group.Woken()
		}
		ok, err := e.tryLock(ctx, key, opts, run)
		for tries := 1; errors.Is(err, errAgain) && tries < claimTries; tries++ {
			ok, err = e.tryLock(ctx, key, opts, run)
		}
		again := err == nil || errors.Is(err, store.ErrUnavailable) || errors.Is(err, ErrCapReached)
		switch {
		case ok:
			return true, nil
		case outer.Err() != nil:
			return false, fmt.Errorf("lock %s: %w", key, context.Cause(outer))
		case wait && inside && own == key:
			return false, fmt.Errorf("lock %s: %w", key, ErrInsideRun)
		case ctx.Err() != nil && tried:
			return false, last // the wait ended in the middle of a try: the one before says why
		case !again, !wait, ctx.Err() != nil:
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
		case <-e.core.Box.Over:
		}
		timer.Stop()
		pause = min(2*pause, time.Second)
	}
}

// claimTries is how often a claim is made at most that no one else was in the way of. The second one is decided on what
// the first was refused for.
const claimTries = 3

// tryLock reads the lock and tries to claim it, once.
func (e *Elector) tryLock(ctx context.Context, key Key, opts LockOptions, run RunFunc) (bool, error) {
	if err := e.waitOpen(ctx); err != nil {
		return false, err
	}
	known := e.core.Lineage.Now()
	lock, err := e.readLock(e.core.Lineage.In(ctx), key)
	if err != nil {
		return false, err
	}
	if err := e.waitKnown(ctx, lock.Session); err != nil {
		return false, err
	}
	started := make(chan lockResult, 1)
	claim := func() {
		if e.core.Lineage.Now() != known {
			started <- lockResult{err: fmt.Errorf("%w: %w", store.ErrUnavailable, engine.ErrLineage)}
			return
		}
		e.runs.claim(lock, opts, &goRun{run: run, limit: opts.MaxHold}, started)
	}
	if err := e.core.Box.Ask(ctx, claim); err != nil {
		return false, err
	}
	abandon := func() { e.core.Box.PostSoon(func() { e.runs.abandon(key, started) }) }
	timer := time.NewTimer(e.core.P.T)
	defer timer.Stop()
	gone, late := ctx.Done(), timer.C
	var unanswered error
	for {
		select {
		case res := <-started:
			if !res.ok && res.err == nil {
				res.err = unanswered
			}
			return res.ok, res.err
		case <-e.core.Box.Over:
			return false, ErrClosed
		case <-gone:
			gone = nil
			abandon()
		case <-late:
			late, unanswered = nil, e.unanswered()
			abandon()
		}
	}
}

// unanswered says that the store has not answered for T. What hangs on its answers has failed then.
func (e *Elector) unanswered() error {
	return fmt.Errorf("%w: no answer for %v", store.ErrUnavailable, e.core.P.T)
}

// checkClaim says why a claim could never be written. One such in a batch would hold up all the others in it.
func checkClaim(key Key, opts LockOptions) error {
	if key == "" {
		return errors.New("key: must not be empty")
	}
	if opts.Wait < 0 {
		return fmt.Errorf("wait: %v: must not be negative; use WaitForever to wait until ctx ends", opts.Wait)
	}
	for _, text := range []struct{ field, of string }{{"reason", string(opts.Reason)}, {"message", opts.Message}} {
		if len(text.of) > MaxText {
			return fmt.Errorf("%s: %d bytes: at most %d are allowed: %w", text.field, len(text.of), MaxText,
				ErrTooLarge)
		}
	}
	return store.ValidateTexts(store.Doc{ID: string(key)})
}

func (e *Elector) readLock(ctx context.Context, key Key) (record.Lock, error) {
	ctx, cancel := context.WithTimeout(ctx, e.core.P.Op)
	defer cancel()
	reply, err := e.core.Docs.Store.Read(ctx, store.KindLock, string(key))
	if err != nil {
		return record.Lock{}, fmt.Errorf("lock %s: read it: %w", key, err)
	}
	if len(reply.Docs) == 0 {
		return record.Lock{Key: key}, nil
	}
	// also a malformed one: who owns it still counts, and the next claim writes the rest
	return e.core.Docs.DecodeLock(reply.Docs[0]), nil
}

// waitOpen waits until the session is acknowledged and valid.
func (e *Elector) waitOpen(ctx context.Context) error {
	return e.waitFor(ctx, func() bool { return e.node.Session.Closing() || e.node.Session.Valid(e.core.Clock.Now()) })
}

// waitKnown waits until it is known whether the session lives.
func (e *Elector) waitKnown(ctx context.Context, session string) error {
	if session == "" {
		return nil
	}
	return e.waitFor(ctx, func() bool {
		return session == e.node.Session.ID() || e.node.Peers.Known(session, e.node.Moment())
	})
}

// waitFor waits until ready, asked in the loop whenever the view has changed, says yes. It waits for T at most.
func (e *Elector) waitFor(ctx context.Context, ready func() bool) error {
	timer := time.NewTimer(e.core.P.T)
	defer timer.Stop()
	for {
		changed := e.core.Changed.Wait()
		var yes bool
		if err := e.core.Box.Ask(ctx, func() { yes = ready() }); err != nil || yes {
			return err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", store.ErrUnavailable, context.Cause(ctx))
		case <-timer.C:
			return e.unanswered()
		case <-e.core.Box.Over:
			return ErrClosed
		}
	}
}

// Unlock implements [Elect].
func (e *Elector) Unlock(ctx context.Context, key Key) error {
	if own, inside := runKey(ctx, e.core); inside && own == key {
		return fmt.Errorf("unlock %s: %w", key, ErrInsideRun)
	}
	ctx, cancel := releasing.Context(ctx, e.cfg.LeaseDuration)
	defer cancel()
	freed := make(chan error, 1)
	held := false
	err := e.core.Box.Ask(ctx, func() {
		if held = e.node.Keys.Held.Holds(key); held {
			r := e.runs.get(key)
			r.freed = append(r.freed, freed)
			e.node.Keys.Release(cluster.HandOver{Key: key}, e.node.Moment())
		}
	})
	switch {
	case err != nil:
		return err
	case !held:
		return fmt.Errorf("unlock %s: %w", key, ErrNotHeld)
	}
	select {
	case err := <-freed:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-e.core.Box.Over:
	}
	select {
	case err := <-freed:
		return err
	default:
		return fmt.Errorf("unlock %s: %w", key, ErrClosed)
	}
}

// HoldingKeys implements [Elect].
func (e *Elector) HoldingKeys() []Key {
	var keys []Key
	// before Run and after its end nothing is held
	_ = e.core.Box.Ask(context.Background(), func() { keys = e.node.Keys.Held.Started() })
	return keys
}

// LockedKeys implements [Elect]. A key whose owner is dead and not yet taken over is still listed.
func (e *Elector) LockedKeys(ctx context.Context) ([]Key, error) {
	docs, err := e.core.Docs.ListLocks(ctx, store.Query{NoBody: true})
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

// Holder says who holds a key. ok is false when it is not held.
func (e *Elector) Holder(ctx context.Context, key Key) (holder Holder, ok bool, err error) {
	lock, err := e.readLock(ctx, key)
	if err != nil || lock.Session == "" {
		return Holder{}, false, err
	}
	if err := e.waitKnown(ctx, lock.Session); err != nil {
		return Holder{}, false, err
	}
	holder = Holder{
		Key: key, Instance: lock.Instance, Session: lock.Session, Token: lock.Token, Since: time.UnixMilli(lock.Since),
	}
	err = e.core.Box.Ask(ctx, func() {
		holder.Alive = lock.Session == e.node.Session.ID() || !e.node.Peers.Freed(lock.Session, key, e.node.Moment())
	})
	return holder, true, err
}
