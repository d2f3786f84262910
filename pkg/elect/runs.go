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
	"github.com/shardctl/shardctl/internal/record"
	"github.com/shardctl/shardctl/internal/releasing"
	"github.com/shardctl/shardctl/pkg/elect/internal/engine"
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
	c := lease.c
	ctx, cancel := context.WithCancelCause(context.WithValue(c.Ctx, insideRun{c}, lease.key))
	r.mu.Lock()
	r.cancel = cancel
	r.mu.Unlock()
	c.Work.Go(func() {
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
		err = guarded(releasing.OfRun(limited), lease, r.run)
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
			lease.c.Log.Error(err, "A run panicked", "key", lease.key, "stack", string(debug.Stack()))
		}
	}()
	return run(ctx, lease)
}

// insideRun marks the contexts of runs.
type insideRun struct{ c *engine.Core }

// runKey is the key whose run ctx belongs to, if it belongs to one of this elector.
func runKey(ctx context.Context, c *engine.Core) (Key, bool) {
	key, ok := ctx.Value(insideRun{c}).(Key)
	return key, ok
}

var _ engine.Runs = (*runs)(nil)

// runs are the runs of this process, and their callers: for each key from its claim until it is free. Only the loop
// touches them.
type runs struct {
	c       *engine.Core
	node    *engine.Engine // set once there is one
	onStuck func([]Key)
	keys    map[Key]*run
	active  int                // runs that have not returned
	takes   func(Key) Runnable // makes the work of a key that is handed over; nil: it is claimed by Claim alone
}

// run is the work of one key.
type run struct {
	key     Key
	first   Runnable
	lease   *Lease // nil until it starts
	active  []*engine.WatchedRun
	started chan<- lockResult // the caller of Lock; nil: none, or answered
	freed   []chan<- error    // callers of Unlock
	advance chan<- advanceResult
}

type lockResult struct {
	ok  bool
	err error
}

var _ keeper = (*runs)(nil)

func newRuns(c *engine.Core, onStuck func([]Key)) *runs {
	return &runs{c: c, onStuck: onStuck, keys: map[Key]*run{}}
}

// Count implements [engine.Runs].
func (rs *runs) Count() int { return rs.active }

func (rs *runs) get(key Key) *run { return rs.keys[key] }

// expect takes note of a claim under way.
func (rs *runs) expect(key Key, first Runnable, started chan<- lockResult) {
	rs.keys[key] = &run{key: key, first: first, started: started}
}

// Start implements [engine.Runs].
func (rs *runs) Start(s engine.Start, status TaskStatus) {
	r := rs.get(s.Key)
	r.lease = newLease(rs.c, rs, rs.node.Session.ID(), s.Key, s.Token, status)
	rs.begin(r, r.first)
	r.answer(true, nil)
}

// again starts another run under the lease of a key that runs.
func (rs *runs) again(key Key, next Runnable) { rs.begin(rs.get(key), next) }

func (rs *runs) begin(r *run, next Runnable) {
	a := &engine.WatchedRun{Run: next, Key: r.key, Session: r.lease.session}
	r.active = append(r.active, a)
	rs.active++
	rs.c.Watchdog.Add(a)
	next.Start(r.lease, func(err error) {
		rs.c.Watchdog.Remove(a)
		rs.c.Box.PostSoon(func() {
			if err != nil {
				rs.c.Log.V(1).Info("A run ended", "key", r.key, "error", err.Error())
			}
			rs.returned(r, a)
		})
	})
	rs.c.Watchdog.Begun(a)
}

// expired lets a key know whose runs the watchdog has stopped at D.
func (rs *runs) expired(key Key) {
	if r := rs.get(key); r != nil {
		rs.expireOne(r)
	}
}

func (rs *runs) expireOne(r *run) {
	for _, a := range r.active {
		if a.Expired.Load() && rs.node.Keys.Held.Running(r.key) {
			rs.node.Keys.Expire(r.key, rs.node.Moment())
			return
		}
	}
}

// returned takes note of the end of a run. When the last of a key has ended the key goes on.
func (rs *runs) returned(r *run, a *engine.WatchedRun) {
	i := slices.Index(r.active, a)
	if i < 0 {
		return // it has said so before, which must not pass for the end of another run
	}
	rs.expireOne(r)
	rs.active--
	if r.active = slices.Delete(r.active, i, i+1); len(r.active) > 0 {
		return
	}
	l := r.lease
	l.lost.Store(true) // it must not be taken for valid when another has the key
	rs.node.Keys.Returned(r.key, l.Status(), l.suspend.Load(), rs.node.Moment())
}

// causes are the errors of the causes of a stop.
var causes = map[engine.Cause]error{
	engine.CauseReleased: ErrReleased, engine.CauseExpired: ErrLeaseLost, engine.CauseLost: ErrLeaseLost,
	engine.CauseUnwritable: ErrTooLarge,
}

// Stop implements [engine.Runs].
func (rs *runs) Stop(key Key, cause engine.Cause) {
	r := rs.get(key)
	if cause == engine.CauseLost {
		r.lease.lost.Store(true)
	}
	for _, a := range slices.Clone(r.active) { // a run may end while it is asked to
		a.Run.Stop(causes[cause])
	}
}

// Stuck implements [engine.Runs].
func (rs *runs) Stuck(keys []Key) {
	if len(keys) > 0 {
		rs.onStuck(keys)
	}
}

// current says whether the lease is still the one its key is held by.
func (rs *runs) current(l *Lease) bool {
	r := rs.get(l.key)
	return r != nil && r.lease == l
}

// report implements [keeper].
func (rs *runs) report(l *Lease) {
	if rs.current(l) {
		rs.node.Keys.Report(l.key, l.Status(), rs.c.Clock.Now())
	}
}

// advance implements [keeper].
func (rs *runs) advance(l *Lease, status TaskStatus, done chan<- advanceResult) {
	switch held := rs.node.Keys; {
	case !rs.current(l) || l.lost.Load() || !held.Held.Keeps(l.key):
		done <- advanceResult{err: ErrLeaseLost}
	case held.Held.Advancing(l.key):
		done <- advanceResult{err: fmt.Errorf("advance %s: another is under way", l.key)}
	case !held.Held.Running(l.key):
		done <- advanceResult{err: ErrReleased} // the lease is good, but nothing more is to be started
	default:
		l.setStatus(status)
		rs.get(l.key).advance = done
		held.Advance(l.key, status, rs.node.Moment())
	}
}

// writerID implements [keeper].
func (rs *runs) writerID() store.WriterID { return rs.node.Session.IDs().Next() }

// Advanced implements [engine.Runs].
func (rs *runs) Advanced(a engine.Advanced) {
	r := rs.get(a.Key)
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

// Freed implements [engine.Runs]: it answers those who wait for the key to be free.
func (rs *runs) Freed(f engine.Freed, sessionLost, leaving bool) {
	r := rs.keys[f.Key]
	delete(rs.keys, f.Key)
	if r == nil {
		return
	}
	r.answer(false, whyFreed(f, sessionLost, leaving))
	var err error
	if f.ReleaseUnconfirmed {
		err = fmt.Errorf("release %s: the lock was lost before its release was acknowledged: %w", f.Key, ErrLeaseLost)
	}
	for _, freed := range r.freed {
		freed <- err
	}
}

// Refused implements [engine.Runs]: the caller of Lock does not wait for what would be refused again. What no one waits
// for, such as a key that is claimed again after an outage, is tried again.
func (rs *runs) Refused(key Key, err error) {
	if r := rs.get(key); r != nil && r.started != nil {
		rs.abandon(key, r.started, func(error) error { return fmt.Errorf("lock %s: the store refuses: %w", key, err) })
	}
}

// claim begins to take a key: lock is as read.
func (rs *runs) claim(lock record.Lock, opts LockOptions, run Runnable, started chan<- lockResult) {
	answer := func(ok bool, err error) {
		if started != nil {
			started <- lockResult{ok, err}
		}
	}
	if rs.node.Keys.Held.Holds(lock.Key) {
		ok := opts.Reentrant && rs.node.Moment().Valid && rs.node.Keys.Held.Running(lock.Key)
		if ok {
			rs.again(lock.Key, run)
		}
		answer(ok, rs.underWay(lock.Key))
		return
	}
	if rs.node.Session.Leaving() {
		answer(false, ErrClosed)
		return
	}
	c := engine.Claim{Lock: lock, Reason: opts.Reason, Message: opts.Message, AnyCap: opts.AnyCap, Adopt: opts.adopt}
	switch rs.node.Claim(c) {
	case engine.ClaimBegun:
		rs.expect(lock.Key, run, started)
	case engine.ClaimHeldHere, engine.ClaimTaken, engine.ClaimEdited:
		answer(false, nil)
	case engine.ClaimFull:
		answer(false, ErrCapReached)
	case engine.ClaimInvalid:
		answer(false, store.ErrUnavailable)
	}
}

// underWay is why a claim or a release of a key that does not run here was not answered; nil: none is under way.
func (rs *runs) underWay(key Key) error {
	if r := rs.get(key); r == nil || len(r.active) > 0 {
		return nil
	}
	trouble := rs.node.Keys.Held.Trouble(key)
	if trouble == nil {
		return nil
	}
	return fmt.Errorf("lock %s: what was asked for before is not answered: %w", key, trouble)
}

// Reserved implements [engine.Runs]: it claims what was handed over. What the caps forbid is left to the
// caller of Decline.
func (rs *runs) Reserved(lock record.Lock) {
	if rs.takes == nil {
		return
	}
	if run := rs.takes(lock.Key); run != nil {
		rs.claim(lock, LockOptions{adopt: true}, run, nil)
	}
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
func (r *run) answer(ok bool, err error) {
	if r.started != nil {
		r.started <- lockResult{ok, err}
		r.started = nil
	}
}

// abandon releases a claim that is not waited for any more. One that has been sent is still seen through: its answer
// decides whether there is something to release. because makes the caller's error of what the store has said last.
func (rs *runs) abandon(key Key, started chan<- lockResult, because func(trouble error) error) {
	r := rs.get(key)
	if r == nil || r.started != started {
		return // answered
	}
	r.answer(false, because(rs.node.KeyTrouble(key)))
	rs.node.Keys.Release(cluster.HandOver{Key: key}, rs.node.Moment())
}
