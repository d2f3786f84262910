package elect

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/shardctl/shardctl/internal/cluster"
	"github.com/shardctl/shardctl/internal/electing"
	"github.com/shardctl/shardctl/pkg/elect/internal/engine"
	"github.com/shardctl/shardctl/pkg/elect/internal/loop"
	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/driver"
)

// Lock implements [Elect].
func (e *Elector) Lock(ctx context.Context, key Key, run RunFunc) (bool, error) {
	return e.LockWith(ctx, key, LockOptions{}, run)
}

// LockWith is Lock with options. When the wait is over it returns false. The error is the reason if there was one apart
// from another's holding the key (ErrCapReached, ErrUnavailable); when ctx has ended, its cause. While the store does
// not answer, both are a [WaitError]. What the store refuses for good is not waited for.
//
// Waiters are woken by a release where the store can notify. Where it cannot they look again with growing pauses (50 ms
// to 1 s, with jitter). There is no order among waiters. ErrInsideRun says that it would wait for the run that calls
// it.
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
	var group *loop.WaiterGroup
	if wait {
		var err error
		if group, err = e.loop.Enter(ctx, key); err != nil {
			return false, err
		}
		defer e.loop.Leave(group)
	}
	own, inside := runKey(ctx, e.loop)
	pause := 50 * time.Millisecond
	tries := lockTries{store: func(n *engine.Engine) error { return n.Trouble.Key(key) }, e: e}
	for {
		var woken <-chan struct{}
		if wait {
			woken = group.Woken()
		}
		ok, err := e.tryLock(ctx, key, opts, run)
		for n := 1; errors.Is(err, errAgain) && n < claimTries; n++ {
			ok, err = e.tryLock(ctx, key, opts, run)
		}
		again := err == nil || errors.Is(err, store.ErrUnavailable) || errors.Is(err, ErrCapReached)
		tries.note(err)
		switch {
		case ok:
			return true, nil
		case outer.Err() != nil:
			return false, fmt.Errorf("lock %s: %w", key, tries.ended(outer))
		case wait && inside && own == key:
			return false, fmt.Errorf("lock %s: %w", key, ErrInsideRun)
		case ctx.Err() != nil:
			return false, tries.over(ctx)
		case !again, !wait, driver.Lasting(err):
			return false, err
		}
		timer := time.NewTimer(pause/2 + rand.N(pause/2)) //nolint:gosec // jitter, not a secret
		select {
		case <-woken:
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			if outer.Err() == nil {
				return false, tries.over(ctx)
			}
		case <-e.loop.Over():
		}
		timer.Stop()
		pause = min(2*pause, time.Second)
	}
}

// lockTries are what the tries of one call have come to.
type lockTries struct {
	e       *Elector
	store   func(n *engine.Engine) error // what it has said last, asked in the loop
	behind  bool                         // one of them has found that another holds the key
	last    error                        // of the last one that was not cut short
	trouble error                        // of the store, unless it has answered since
}

// note takes the end of a try.
func (l *lockTries) note(err error) {
	cut, short := errors.AsType[*WaitError](err)
	switch {
	case short:
		l.trouble = cmp.Or(cut.Store, l.trouble)
		return
	case errors.Is(err, store.ErrUnavailable) && !errors.Is(err, errAgain):
		l.trouble = err
	default:
		l.trouble = nil
	}
	l.last, l.behind = err, l.behind || err == nil
}

// ended is the error of a call whose context has ended.
func (l *lockTries) ended(ctx context.Context) error {
	if l.answered() {
		return context.Cause(ctx)
	}
	return &WaitError{Cause: context.Cause(ctx), Behind: l.behind, Store: l.trouble}
}

// answered reports whether the store has answered a try, and everything since.
func (l *lockTries) answered() bool {
	if l.trouble == nil {
		l.trouble = l.e.trouble(l.store)
	}
	return l.trouble == nil && (l.behind || l.last != nil)
}

// over is the error of a call whose wait is over; nil: another holds the key.
func (l *lockTries) over(ctx context.Context) error {
	if l.answered() {
		return l.last
	}
	return l.ended(ctx)
}

// claimTries is how often a claim is made at most that no one else was in the way of. The second one is decided on what
// the first was refused for.
const claimTries = 3

// tryLock reads the lock and tries to claim it, once.
func (e *Elector) tryLock(ctx context.Context, key Key, opts LockOptions, run RunFunc) (bool, error) {
	if err := e.waitOpen(ctx); err != nil {
		return false, err
	}
	known := e.loop.Lineage()
	lock, err := e.loop.Documents().DecidedOn(known).ReadLock(ctx, key)
	switch {
	case err != nil && ctx.Err() != nil && !driver.Lasting(err):
		return false, &WaitError{Cause: context.Cause(ctx), Store: e.trouble(sessionTrouble)}
	case err != nil:
		return false, err
	}
	if err := e.waitKnown(ctx, lock.Session); err != nil {
		return false, err
	}
	started := make(chan lockResult, 1)
	claim := func(n *engine.Engine) {
		if e.loop.Lineage() != known {
			started <- lockResult{err: fmt.Errorf("%w: %w", store.ErrUnavailable, engine.ErrLineage)}
			return
		}
		e.claim(n, lock, opts, &goRun{run: run, limit: opts.MaxHold}, started)
	}
	if err := e.loop.Ask(ctx, claim); err != nil {
		return false, err
	}
	abandon := func(because func(error) error) {
		e.loop.Post(func(n *engine.Engine) {
			if r := runOf(n, key); r != nil && r.started == started { // else it was answered
				r.abandon(n, because)
			}
		})
	}
	timer := time.NewTimer(e.loop.Params().T)
	defer timer.Stop()
	gone, late := ctx.Done(), timer.C
	for {
		select {
		case res := <-started:
			return res.ok, res.err
		case <-e.loop.Over():
			return false, ErrClosed
		case <-gone:
			gone = nil
			abandon(func(trouble error) error { return &WaitError{Cause: context.Cause(ctx), Store: trouble} })
		case <-late:
			late = nil
			abandon(func(trouble error) error { return engine.Unanswered(e.loop.Params().T, trouble) })
		}
	}
}

// sessionTrouble is the last error of the store that keeps the session waiting; nil: none does.
func sessionTrouble(n *engine.Engine) error { return n.Trouble.Session() }

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
	return driver.ValidateTexts(driver.Doc{ID: string(key)})
}

// waitOpen waits until the session is acknowledged and valid.
func (e *Elector) waitOpen(ctx context.Context) error {
	open := func(n *engine.Engine) bool { return n.Self.Closing() || n.Moment().Valid }
	return e.waitFor(ctx, open, sessionTrouble)
}

// waitKnown waits until it is known whether the session lives.
func (e *Elector) waitKnown(ctx context.Context, session string) error {
	if session == "" {
		return nil
	}
	known := func(n *engine.Engine) bool { return session == n.Self.ID() || n.Peers.Known(session, n.Moment()) }
	return e.waitFor(ctx, known, func(n *engine.Engine) error { return n.Trouble.Look() })
}

// waitFor waits until ready, asked in the loop whenever the view has changed, says yes. It waits for T at most, and not
// for what the store refuses for good. trouble, likewise, is what the store has said last.
func (e *Elector) waitFor(
	ctx context.Context, ready func(n *engine.Engine) bool, trouble func(n *engine.Engine) error,
) error {
	timer := time.NewTimer(e.loop.Params().T)
	defer timer.Stop()
	for {
		changed := e.loop.Changed()
		var yes bool
		var why error
		switch err := e.loop.Ask(ctx, func(n *engine.Engine) { yes, why = ready(n), trouble(n) }); {
		case err != nil && ctx.Err() != nil:
			return &WaitError{Cause: context.Cause(ctx), Store: e.trouble(trouble)}
		case err != nil, yes:
			return err
		case driver.Lasting(why):
			return fmt.Errorf("the store refuses: %w", why)
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return &WaitError{Cause: context.Cause(ctx), Store: e.trouble(trouble)}
		case <-timer.C:
			return engine.Unanswered(e.loop.Params().T, e.trouble(trouble))
		case <-e.loop.Over():
			return ErrClosed
		}
	}
}

// Unlock implements [Elect].
func (e *Elector) Unlock(ctx context.Context, key Key) error {
	if own, inside := runKey(ctx, e.loop); inside && own == key {
		return fmt.Errorf("unlock %s: %w", key, ErrInsideRun)
	}
	ctx, cancel := electing.Release(ctx, e.cfg.LeaseDuration)
	defer cancel()
	freed := make(chan error, 1)
	held := false
	err := e.loop.Ask(ctx, func(n *engine.Engine) {
		r := runOf(n, key)
		if held = r != nil; held {
			r.freed = append(r.freed, freed)
			n.Keys.Release(cluster.HandOver{Key: key}, n.Moment())
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
		trouble := func(n *engine.Engine) error { return n.Trouble.Key(key) }
		return fmt.Errorf("unlock %s: %w", key, withTrouble(context.Cause(ctx), e.trouble(trouble)))
	case <-e.loop.Over():
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
	_ = e.loop.Ask(context.Background(), func(n *engine.Engine) { keys = n.Keys.Held.Started() })
	return keys
}

// LockedKeys implements [Elect]. A key whose owner is dead and not yet taken over is still listed.
func (e *Elector) LockedKeys(ctx context.Context) ([]Key, error) {
	docs, err := e.loop.Documents().ListLocks(ctx, driver.Query{NoBody: true})
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
	lock, err := e.loop.Documents().ReadLock(ctx, key)
	if err != nil || lock.Session == "" {
		return Holder{}, false, err
	}
	if err := e.waitKnown(ctx, lock.Session); err != nil {
		return Holder{}, false, err
	}
	holder = Holder{
		Key: key, Instance: lock.Instance, Session: lock.Session, Token: lock.Token, Since: time.UnixMilli(lock.Since),
	}
	err = e.loop.Ask(ctx, func(n *engine.Engine) {
		holder.Alive = lock.Session == n.Self.ID() || !n.Peers.Orphaned(lock.Session, key, n.Moment())
	})
	return holder, true, err
}
