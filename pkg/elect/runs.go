package elect

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/shardctl/shardctl/internal/cluster"
	"github.com/shardctl/shardctl/internal/electing"
	"github.com/shardctl/shardctl/pkg/elect/internal/engine"
	"github.com/shardctl/shardctl/pkg/elect/internal/loop"
	"github.com/shardctl/shardctl/pkg/store"
)

// Go makes run a Runnable that has a goroutine of its own.
func Go(run RunFunc) Runnable { return &goRun{run: run} }

// goRun calls a RunFunc on a goroutine of its own.
type goRun struct {
	run   RunFunc
	limit time.Duration // of its context; 0: none

	mu     sync.Mutex
	cancel context.CancelCauseFunc // nil while it does not run
}

// Start implements [Runnable].
func (r *goRun) Start(lease *Lease, ended func(error)) {
	l := lease.of.in().loop
	ctx, cancel := context.WithCancelCause(context.WithValue(l.Context(), insideRun{l}, lease.key))
	r.mu.Lock()
	r.cancel = cancel
	r.mu.Unlock()
	l.Go(func() {
		err := errGoexit
		defer func() {
			r.mu.Lock()
			r.cancel = nil
			r.mu.Unlock()
			cancel(ErrReleased)
			ended(err)
		}()
		limited, stop := withMaxHold(ctx, r.limit)
		defer stop()
		err = guarded(electing.OfRun(limited), lease, r.run)
	})
}

// Stop implements [Runnable].
func (r *goRun) Stop(cause error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.cancel != nil {
		r.cancel(cause)
	}
}

// errGoexit says that a run ended its goroutine instead of returning.
var errGoexit = errors.New("run called runtime.Goexit")

func withMaxHold(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	if limit <= 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeoutCause(ctx, limit, ErrMaxHold)
}

// guarded calls run and turns a panic into an error: one task never takes the replica down.
func guarded(ctx context.Context, lease *Lease, run RunFunc) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic: %v", r)
			lease.of.in().log.Error(err, "A run panicked", "key", lease.key, "stack", string(debug.Stack()))
		}
	}()
	return run(ctx, lease)
}

// insideRun marks the contexts of runs.
type insideRun struct{ loop *loop.Loop }

// runKey is the key whose run ctx belongs to, if it belongs to one of this elector.
func runKey(ctx context.Context, of *loop.Loop) (Key, bool) {
	key, ok := ctx.Value(insideRun{of}).(Key)
	return key, ok
}

// keyRun is the work of one key, from its claim until it is free here. Only the loop touches it.
type keyRun struct {
	*process

	key     Key
	first   Runnable
	lease   *Lease // nil until it starts
	active  []*loop.WatchedRun
	started chan<- lockResult // the caller of Lock; nil: none, or answered
	freed   []chan<- error    // callers of Unlock
	advance chan<- advanceResult
}

var (
	_ engine.Work = (*keyRun)(nil)
	_ leased      = (*keyRun)(nil)
)

type lockResult struct {
	ok  bool
	err error
}

// runOf is the work of a key; nil: it is free here.
func runOf(n *engine.Engine, key Key) *keyRun {
	r, _ := n.Keys.Held.Work(key).(*keyRun)
	return r
}

// Start implements [engine.Work].
func (r *keyRun) Start(s engine.Start, status TaskStatus) {
	r.lease = newLease(r, s.Session, s.Key, s.Token, status)
	r.begin(r.first)
	r.answer(true, nil)
}

// begin starts a run: the first one, or another under the lease of a key that runs.
func (r *keyRun) begin(next Runnable) {
	l := r.loop
	a := &loop.WatchedRun{Run: next, Key: r.key, Session: r.lease.session}
	r.active = append(r.active, a)
	l.Watchdog.Add(a)
	next.Start(r.lease, func(err error) {
		l.Watchdog.Remove(a)
		l.Post(func(n *engine.Engine) {
			if err != nil {
				r.log.V(1).Info("A run ended", "key", r.key, "error", err.Error())
			}
			r.returned(n, a)
		})
	})
	l.Watchdog.Begun(a)
}

// returned takes note of the end of a run. When the last of a key has ended the key goes on.
func (r *keyRun) returned(n *engine.Engine, a *loop.WatchedRun) {
	i := slices.Index(r.active, a)
	if i < 0 {
		return // it has said so before, which must not pass for the end of another run
	}
	if a.Expired.Load() && n.Keys.Held.Running(r.key) {
		n.Keys.Expire(r.key, n.Moment()) // the loop has not: it had ended by then
	}
	if r.active = slices.Delete(r.active, i, i+1); len(r.active) > 0 {
		return
	}
	l := r.lease
	l.lost.Store(true) // it must not be taken for valid when another has the key
	n.Keys.Returned(r.key, l.Status(), l.suspend.Load(), n.Moment())
}

// causes are the errors of the causes of a stop.
var causes = map[engine.Cause]error{
	engine.CauseReleased: ErrReleased, engine.CauseExpired: ErrLeaseLost, engine.CauseLost: ErrLeaseLost,
	engine.CauseUnwritable: ErrTooLarge,
}

// Stop implements [engine.Work].
func (r *keyRun) Stop(cause engine.Cause) {
	if cause == engine.CauseLost {
		r.lease.lost.Store(true)
	}
	for _, a := range slices.Clone(r.active) { // a run may end while it is asked to
		a.Run.Stop(causes[cause])
	}
}

// holds says whether the key is still held by the lease.
func (r *keyRun) holds(n *engine.Engine, l *Lease) bool { return r.lease == l && runOf(n, r.key) == r }

// report notes the lease's status in the lock.
func (r *keyRun) report(n *engine.Engine, l *Lease) {
	if r.holds(n, l) {
		n.Keys.Report(r.key, l.Status(), n.Moment().Now)
	}
}

// advanceTo asks for a new token of the lease.
func (r *keyRun) advanceTo(n *engine.Engine, l *Lease, status TaskStatus, done chan<- advanceResult) {
	switch keys := n.Keys; {
	case !r.holds(n, l) || l.lost.Load() || !keys.Held.Keeps(r.key):
		done <- advanceResult{err: ErrLeaseLost}
	case keys.Held.Advancing(r.key):
		done <- advanceResult{err: fmt.Errorf("advance %s: another is under way", r.key)}
	case !keys.Held.Running(r.key):
		done <- advanceResult{err: ErrReleased} // the lease is good, but nothing more is to be started
	default:
		l.setStatus(status)
		r.advance = done
		keys.Advance(r.key, status, n.Moment())
	}
}

// Advanced implements [engine.Work].
func (r *keyRun) Advanced(a engine.Advanced) {
	if a.Token > 0 {
		r.lease.token.Store(a.Token)
	}
	if r.advance == nil {
		return
	}
	res := advanceResult{token: a.Token}
	if a.Token == 0 {
		res.err = causes[a.Cause]
	}
	r.advance <- res
	r.advance = nil
}

// Freed implements [engine.Work]: it answers those who wait for the key to be free.
func (r *keyRun) Freed(f engine.Freed, sessionLost, leaving bool) {
	r.answer(false, whyFreed(f, sessionLost, leaving))
	var err error
	if f.ReleaseUnconfirmed {
		err = fmt.Errorf("release %s: the lock was lost before its release was acknowledged: %w", f.Key, ErrLeaseLost)
	}
	for _, freed := range r.freed {
		freed <- err
	}
}

// Refused implements [engine.Work]: the caller of Lock does not wait for what would be refused again. What no one waits
// for, such as a key that is claimed again after an outage, is tried again.
func (r *keyRun) Refused(err error) (giveUp bool) {
	giveUp = r.started != nil
	r.answer(false, fmt.Errorf("lock %s: the store refuses: %w", r.key, err))
	return giveUp
}

// underWay is why a claim or a release of a key that does not run here was not answered; nil: none is under way.
func (r *keyRun) underWay(n *engine.Engine) error {
	if len(r.active) > 0 {
		return nil
	}
	trouble := n.Keys.Held.WriteTrouble(r.key)
	if trouble == nil {
		return nil
	}
	return fmt.Errorf("lock %s: what was asked for before is not answered: %w", r.key, trouble)
}

// errAgain says that no one has the key that was asked for, as far as is known, and that the claim has to be made
// again.
var errAgain = fmt.Errorf("the claim has to be made again: %w", store.ErrUnavailable)

// whyFreed is what a caller of Lock gets when the key it asked for is free here again before anything was started. It
// is nil, another has it, only where the store said so.
func whyFreed(f engine.Freed, sessionLost, leaving bool) error {
	switch {
	case sessionLost:
		return fmt.Errorf("the session was lost during the claim: %w", store.ErrUnavailable)
	case f.Unwritable:
		return fmt.Errorf("the store cannot take the claim: %w", ErrTooLarge)
	case f.Reclaim:
		return errAgain
	case f.Refused:
		return nil
	case leaving:
		return ErrClosed
	}
	return ErrReleased
}

// answer answers the caller of Lock, once.
func (r *keyRun) answer(ok bool, err error) {
	if r.started != nil {
		r.started <- lockResult{ok, err}
		r.started = nil
	}
}

// abandon releases a claim that is not waited for any more. One that has been sent is still seen through: its answer
// decides whether there is something to release. because makes the caller's error of what the store has said last.
func (r *keyRun) abandon(n *engine.Engine, because func(trouble error) error) {
	r.answer(false, because(n.Trouble.Key(r.key)))
	n.Keys.Release(cluster.HandOver{Key: r.key}, n.Moment())
}
