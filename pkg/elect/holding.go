package elect

import (
	"fmt"
	"slices"
	"time"

	"github.com/shardctl/shardctl/pkg/elect/protocol"
	"github.com/shardctl/shardctl/pkg/elect/store"
)

// holding is one key in this process: the machine, the lock as last acknowledged, and who waits for what.
type holding struct {
	key  Key
	m    protocol.Key
	lock Lock // as last acknowledged, or as read before the claim

	pending  Lock         // what the write under way would make of it
	change   store.Change // that write: a repeat is the very same
	made     bool         // change is what action asks for
	action   protocol.KeyAction
	from     string           // the session it was claimed from, empty when nobody's
	after    protocol.Instant // no repeat before, after a failure
	report   bool             // a status is to be noted
	reportAt protocol.Instant

	run      Runnable
	opts     LockOptions
	lease    *Lease
	runs     []*watchedRun
	status   TaskStatus
	next     string // whom to reserve it for at the release
	park     bool
	reason   Reason // of the release
	started  chan<- lockResult
	stops    []chan<- struct{} // closed when the key is free here
	advance  *advanceRequest
	dying    protocol.Instant // last beat seen of the dead owner, for the fail-over's duration
	handedAt int64            // store's clock, Unix ms, when it was handed over to this session; else 0
	floor    int64            // no revision below: of a lock that is not there, but once was
	gone     bool             // its lock was deleted by hand
	lostAt   protocol.Instant // when the run was told that the key is another's
	stuck    bool             // it has been told that the run did not return after that
}

type lockResult struct {
	ok  bool
	err error
}

type advanceRequest struct {
	status TaskStatus
	done   chan<- advanceResult
}

type advanceResult struct {
	token int64
	err   error
}

// stepKeys feeds every key's machine.
func (e *Elector) stepKeys(ev protocol.KeyEvent) {
	for _, h := range e.loop.keys {
		e.stepKey(h, ev)
	}
}

// tickKeys repeats what was not answered.
func (e *Elector) tickKeys() {
	now := e.clock.Now()
	e.loop.reports = false
	e.tellStuck(now)
	for _, h := range e.loop.keys {
		e.reportIfDue(h, now)
		e.expire(h)
		if (h.m.Op != protocol.NoOp && !h.m.Sent || h.m.Phase == protocol.Idle || h.m.Seeking() && !h.m.Reading) && now.HolderElapsed(h.after) >= 0 {
			e.stepKey(h, protocol.KeyEvent{Kind: protocol.KeyTick})
		}
	}
}

// tellStuck tells of runs that go on although their key is another's: one that was taken away alone, by a hand in the database, meets no
// deadline of the session. T/4 is enough for any command to be killed; a function that ignores its context must take
// the process with it.
func (e *Elector) tellStuck(now protocol.Instant) {
	var keys []Key
	for _, h := range e.loop.keys {
		if h.m.Lost && len(h.runs) > 0 && !h.stuck && now.Reached(h.lostAt, e.p.T/4) {
			h.stuck = true
			keys = append(keys, h.key)
		}
	}
	if len(keys) > 0 {
		e.cfg.OnStuck(sortKeys(keys))
	}
}

// reportDelay is how long a status waits for a newer one: what starts and stops at once is told once, and the writes of
// a hand-over are not held up by reports.
const reportDelay = 200 * time.Millisecond

func (e *Elector) reportIfDue(h *holding, now protocol.Instant) {
	switch {
	case !h.report:
	case now.Reached(h.reportAt, reportDelay):
		h.report = false
		e.stepKey(h, protocol.KeyEvent{Kind: protocol.KeyReport})
	default:
		e.loop.reports = true
	}
}

// stepKey feeds one key's machine and does what it says.
func (e *Elector) stepKey(h *holding, ev protocol.KeyEvent) {
	ev.Valid = e.loop.session.m.Valid(e.p, e.clock.Now())
	ev.Clock = max(e.revs.now(), h.floor)
	var acts []protocol.KeyAction
	before := h.m
	h.m, acts = h.m.Step(ev)
	if before.Phase != h.m.Phase {
		e.loop.viewDirty = true
	}
	for _, a := range acts {
		e.actKey(h, a, before)
	}
}

func (e *Elector) actKey(h *holding, a protocol.KeyAction, before protocol.Key) {
	switch a.Kind {
	case protocol.WriteKey:
		e.writeKey(h, a)
	case protocol.ReadKey:
		if h.m.Seeking() {
			e.loop.reads = append(e.loop.reads, h)
			break
		}
		e.readKey(h)
	case protocol.StartKey:
		e.startHeld(h, a.Token)
	case protocol.StopKey:
		cause := ErrReleased
		if h.m.Expired {
			cause = ErrLeaseLost
		}
		h.stop(cause)
	case protocol.KillKey:
		e.log.Info("The key is no longer held: stopping it by force", "key", h.key, "token", before.Token)
		h.lease.lost.Store(true)
		h.lostAt = e.clock.Now()
		h.stop(ErrLeaseLost)
	case protocol.Advanced:
		h.lease.token.Store(a.Token)
		if e.loop.session.m.Valid(e.p, e.clock.Now()) {
			h.advance.finish(a.Token, nil)
		} else {
			h.advance.finish(0, ErrLeaseLost) // D has come: nothing may be started
		}
		h.advance = nil
	case protocol.KeyOff:
		e.off(h, a.Refused)
	}
}

func (h *holding) stop(cause error) {
	if h.advance != nil {
		h.advance.finish(0, cause)
		h.advance = nil
	}
	for _, run := range h.runs {
		run.Stop(cause)
	}
}

func (r *advanceRequest) finish(token int64, err error) {
	if r != nil {
		r.done <- advanceResult{token, err}
	}
}

// off forgets a key that is free here.
func (e *Elector) off(h *holding, refused bool) {
	l := &e.loop
	delete(l.keys, h.key)
	group := h.key.Group()
	if l.owned[group]--; l.owned[group] == 0 {
		delete(l.owned, group)
	}
	l.viewDirty = true
	if h.started != nil {
		h.started <- lockResult{false, e.whyOff(refused)}
		h.started = nil
	}
	if refused {
		e.countClaim(group, "lost")
		l.mirror.touch(group)
	}
	if h.advance != nil {
		h.advance.finish(0, ErrLeaseLost)
	}
	for _, done := range h.stops {
		close(done)
	}
	if h.gone {
		e.restore(h.lock)
	}
}

// whyOff is what a caller of Lock is told when the key it asked for is free here again before anything was started: nil, another
// has it, only where the store said so.
func (e *Elector) whyOff(refused bool) error {
	switch l := &e.loop; {
	case l.session.m.Phase == protocol.Lost:
		return fmt.Errorf("the session was lost during the claim: %w", ErrUnavailable)
	case refused:
		return nil
	case l.closing, l.drain:
		return ErrClosed
	}
	return ErrReleased
}

// startHeld starts the run of a key that has just been claimed.
func (e *Elector) startHeld(h *holding, token int64) {
	h.lease = newLease(e, h, token)
	e.start(h, h.run)
	if h.started != nil {
		h.started <- lockResult{true, nil}
		h.started = nil
	}
	e.observeStart(h)
}

// start begins one run under the lease. When the last of them has ended the key goes on.
func (e *Elector) start(h *holding, run Runnable) {
	r := &watchedRun{Runnable: run, key: h.key, session: h.lease.session}
	h.runs = append(h.runs, r)
	e.loop.running++
	e.dog.add(r)
	run.Start(h.lease, func(err error) {
		e.dog.remove(r)
		e.postSoon(func() {
			if err != nil {
				e.log.V(1).Info("A run ended", "key", h.key, "error", err.Error())
			}
			e.returned(h, r)
		})
	})
	e.dog.begun(r)
}

// expire lets a key know that the watchdog has stopped its runs at D.
func (e *Elector) expire(h *holding) {
	for _, r := range h.runs {
		if h.m.Phase == protocol.Running && r.expired.Load() {
			e.stepKey(h, protocol.KeyEvent{Kind: protocol.KeyDeadline})
			return
		}
	}
}

func (e *Elector) returned(h *holding, r *watchedRun) {
	i := slices.Index(h.runs, r)
	if i < 0 {
		return // it has said so before, which must not pass for the end of another run
	}
	e.expire(h)
	e.loop.running--
	if h.runs = slices.Delete(h.runs, i, i+1); len(h.runs) > 0 {
		return
	}
	h.status = h.lease.Status() // the release carries it, however soon after the report the run ended
	h.lease.lost.Store(true)    // whoever kept it must not take it for valid when another has the key
	h.park = h.park || h.lease.park.Load()
	if h.m.Expired && !h.opts.adopt {
		e.giveUp(h, "", false, "")
	}
	e.stepKey(h, protocol.KeyEvent{Kind: protocol.KeyReturned})
}

// giveUp asks for a key's release, reserved for next (empty: for nobody).
func (e *Elector) giveUp(h *holding, next string, park bool, reason Reason) {
	if h.m.GiveUp {
		return
	}
	h.next, h.reason = next, reason
	h.park = h.park || park
	e.stepKey(h, protocol.KeyEvent{Kind: protocol.KeyGiveUp})
}

func sortKeys(keys []Key) []Key {
	slices.Sort(keys)
	return keys
}
