package tasks

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"
)

// grant is what a far side was last told it may do, or may have heard. It outlives a failed start: until it is over, or a stop
// was acknowledged, the key stays here.
type grant struct {
	start start
	until time.Time // zero: nothing is granted
	seq   int       // of messages under start.token
}

// stopRetry is the time between two tries to stop a far side.
const stopRetry = time.Second

// errUnrenewed says a far side's time ran out.
var errUnrenewed = errors.New("not renewed before its time was over")

// session tells a far side that the task is its own, again and again, for as long as the key is held. It returns when the
// far side could not be told, or when ctx has ended; the grant is ended by endGrant.
func (r *running) session(ctx context.Context, st start) ending {
	if err := r.startFarSide(ctx, st); err != nil {
		return ending{err: fmt.Errorf("not started: %w", err), code: 1, cut: ctx.Err() != nil}
	}
	r.report(StateRunning)
	known := r.grant.until // what the far side is known to have heard; it may have heard more
	wait := r.s.cfg.Lease / 3
	for {
		if !sleep(ctx, min(wait, time.Until(known))) {
			return ending{cut: true}
		}
		if !time.Now().Before(known) {
			return ending{err: errUnrenewed, code: 1}
		}
		err := r.tell(ctx, eventRenew)
		switch {
		case err == nil:
			known, wait = r.grant.until, r.s.cfg.Lease/3
		case ctx.Err() != nil:
			return ending{cut: true}
		default:
			r.log.Error(err, "renewing failed, trying again", "token", st.token)
			r.report(StateRunning, lastError(err))
			wait = r.s.cfg.Lease / 40
		}
	}
}

func (r *running) startFarSide(ctx context.Context, st start) error {
	r.grant.start, r.grant.seq = st, 0
	if err := take(ctx, r.s.calls); err != nil {
		return err
	}
	defer func() { <-r.s.calls }()
	return r.tell(ctx, eventStart)
}

// tell sends start or renew. The grant is noted, here and by whoever frees keys, before anything is sent: it ends at the hold's
// deadline, from which the far side's seconds are counted back by the longest that the request may be under way.
func (r *running) tell(ctx context.Context, event string) error {
	before, until := r.grant.until, r.hold.Deadline()
	if _, err := r.validFor(until, time.Now()); err != nil {
		return fmt.Errorf("%s: %w", event, err)
	}
	if until.After(before) {
		if err := r.setGrant(until); err != nil {
			r.grant.until = before
			return fmt.Errorf("%s: %w: %w", event, errNotSent, err)
		}
	}
	err := r.sendWhileHeld(ctx, event, until)
	if errors.Is(err, errNotSent) {
		_ = r.setGrant(before) // who has not heard waits longer
	}
	return err
}

// sendWhileHeld counts the far side's seconds and the request's time from one moment, after all waiting: a request that arrives at its very
// end still leaves the far side no more than the hold has.
func (r *running) sendWhileHeld(ctx context.Context, event string, until time.Time) error {
	now := time.Now()
	validFor, err := r.validFor(until, now)
	if err != nil {
		return fmt.Errorf("%s: %w", event, err)
	}
	ctx, cancel := context.WithDeadlineCause(ctx, now.Add(r.farTimeout()), errRequestTimeout)
	defer cancel()
	return r.sendEvent(ctx, event, validFor)
}

// validFor is what a request sent at now may say that the far side has, until being the hold's deadline.
func (r *running) validFor(until, now time.Time) (time.Duration, error) {
	left, timeout := until.Sub(now), r.farTimeout()
	if left <= timeout {
		return 0, fmt.Errorf("%w: the lease has %s left, less than the request may take", errNotSent, left.Round(time.Millisecond))
	}
	return left - timeout, nil
}

func (r *running) sendEvent(ctx context.Context, event string, validFor time.Duration) error {
	st := r.grant.start
	r.grant.seq++ // also for a repeated one: it says another time
	idem := fmt.Sprintf("%s#%d/%s/%d", r.hold.Key(), st.token, event, r.grant.seq)
	return r.send(ctx, message{event: event, start: st, validFor: validFor, idem: idem})
}

// farTimeout is the longest that one request may take.
func (r *running) farTimeout() time.Duration {
	return cmp.Or(r.task.HTTP.Timeout, min(DefaultHTTPTimeout, r.s.cfg.Lease/4))
}

func (r *running) setGrant(until time.Time) error {
	r.grant.until = until
	if r.s.cfg.Granted == nil {
		return nil
	}
	return r.s.cfg.Granted(r.hold.Key(), r.hold.Session(), until)
}

// endGrant returns when a far side has acknowledged a stop, or the time that it was granted is over. ctx has ended, or
// the task has for good.
func (r *running) endGrant(ctx context.Context) {
	if r.grant.until.IsZero() {
		return
	}
	r.report(StateStopping)
	over, cancel := context.WithDeadline(context.WithoutCancel(ctx), r.grant.until)
	defer cancel()
	for over.Err() == nil {
		try, cancelTry := context.WithTimeoutCause(over, r.farTimeout(), errRequestTimeout)
		err := r.sendEvent(try, eventStop, 0)
		cancelTry()
		if err == nil {
			break
		}
		r.log.Error(err, "stopping was not acknowledged, trying again until its time is over")
		sleep(over, stopRetry)
	}
	_ = r.setGrant(time.Time{}) // who has not heard waits longer
}
