package elect

import (
	"fmt"
	"slices"

	"github.com/shardctl/shardctl/pkg/elect/internal/engine"
	"github.com/shardctl/shardctl/pkg/elect/record"
	"github.com/shardctl/shardctl/pkg/store"
)

var _ engine.Runs = (*runs)(nil)

// runs are the runs of this process, and their callers: for each key from its claim until it is free. Only the loop
// touches them.
type runs struct {
	c        *calls
	node     *engine.Engine // set once there is one
	dog      *watchdog
	keys     map[Key]*run
	active   int                    // runs that have not returned
	reserved func(lock record.Lock) // claims what was handed over
}

// run is the work of one key.
type run struct {
	key     Key
	first   Runnable
	lease   *Lease // nil until it starts
	active  []*watchedRun
	started chan<- lockResult // the caller of Lock; nil: none, or answered
	freed   []chan<- error    // callers of Unlock
	advance chan<- advanceResult
}

type lockResult struct {
	ok  bool
	err error
}

var _ keeper = (*runs)(nil)

func newRuns(c *calls) *runs {
	return &runs{c: c, dog: newWatchdog(c.p, c.clock, &c.lease), keys: map[Key]*run{}}
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
	a := &watchedRun{Runnable: next, key: r.key, session: r.lease.session}
	r.active = append(r.active, a)
	rs.active++
	rs.dog.add(a)
	next.Start(r.lease, func(err error) {
		rs.dog.remove(a)
		rs.c.box.postSoon(func() {
			if err != nil {
				rs.c.log.V(1).Info("A run ended", "key", r.key, "error", err.Error())
			}
			rs.returned(r, a)
		})
	})
	rs.dog.begun(a)
}

// expire lets the keys know whose runs the watchdog has stopped at D.
func (rs *runs) expire() {
	for _, key := range rs.dog.takeExpired() {
		if r := rs.get(key); r != nil {
			rs.expireOne(r)
		}
	}
}

func (rs *runs) expireOne(r *run) {
	for _, a := range r.active {
		if a.expired.Load() && rs.node.Keys.Running(r.key) {
			rs.node.Keys.Expire(r.key, rs.node.Moment())
			return
		}
	}
}

// returned takes note of the end of a run. When the last of a key has ended the key goes on.
func (rs *runs) returned(r *run, a *watchedRun) {
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
		a.Stop(causes[cause])
	}
}

// Stuck implements [engine.Runs].
func (rs *runs) Stuck(keys []Key) {
	if len(keys) > 0 {
		rs.c.cfg.OnStuck(keys)
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
		rs.node.Keys.Report(l.key, l.Status(), rs.c.clock.Now())
	}
}

// advance implements [keeper].
func (rs *runs) advance(l *Lease, status TaskStatus, done chan<- advanceResult) {
	switch held := rs.node.Keys; {
	case !rs.current(l) || l.lost.Load() || !held.Keeps(l.key):
		done <- advanceResult{err: ErrLeaseLost}
	case held.Advancing(l.key):
		done <- advanceResult{err: fmt.Errorf("advance %s: another is under way", l.key)}
	case !held.Running(l.key):
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

// Reserved implements [engine.Runs].
func (rs *runs) Reserved(lock record.Lock) {
	rs.reserved(lock)
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
// decides whether there is something to release.
func (rs *runs) abandon(key Key, started chan<- lockResult) {
	r := rs.get(key)
	if r == nil || r.started != started {
		return // answered
	}
	r.answer(false, nil)
	rs.node.Keys.Release(key, engine.Release{}, rs.node.Moment())
}
