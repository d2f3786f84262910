package idempotency

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/shardctl/shardctl/internal/clock"
)

// How long writes outside of transactions may take, and the pauses of one who waits.
const (
	writeWithin = 15 * time.Second
	firstPause  = 20 * time.Millisecond
	lastPause   = time.Second
)

// driver does what one call's machine says.
type driver struct {
	cfg     Config
	records Records
	req     Request
	work    func(context.Context) (Reply, error)
	call    call

	found   Record // as last found
	owner   string
	reply   Reply
	failure error         // of the work
	trouble error         // of the last operation
	pause   time.Duration // the last
}

// run sees the call through. The reply is in d.reply.
func (d *driver) run(ctx context.Context) (Outcome, error) {
	held, owner, release, err := d.records.BindSession(ctx)
	if err != nil {
		return OutcomeUnknown, err
	}
	defer release()
	d.owner = owner
	act := d.step(event{Kind: asked})
	for !act.Kind.ends() {
		act = d.step(d.perform(ctx, held, act))
	}
	if d.failure != nil {
		d.reply = Reply{}
	}
	return d.outcome(ctx, act.Kind)
}

func (d *driver) step(e event) action {
	var act action
	d.call, act = d.call.step(e)
	return act
}

// perform does one thing and says what came of it.
func (d *driver) perform(ctx, held context.Context, act action) event {
	switch act.Kind {
	case claimIt:
		return d.write(ctx, act.Over, &Record{
			ID: d.req.ID, Fingerprint: d.req.Fingerprint, State: Started, Owner: d.owner, Claim: d.call.Claim,
			Attempt: act.Attempt,
		})
	case markInterrupted:
		failed := d.found
		failed.State, failed.Claim, failed.Interrupted = Failed, d.call.Claim, true
		failed.Failure = ErrInterrupted.Error()
		return d.write(ctx, act.Over, &failed)
	case keepIt:
		return d.write(ctx, act.Over, d.ended())
	case deleteClaim:
		return d.write(ctx, act.Over, nil)
	case readIt:
		return d.read(ctx)
	case judgeOwner:
		dead, err := d.records.Dead(ctx, d.found.Owner)
		if err != nil {
			return d.failed(ctx, err)
		}
		return event{Kind: judged, Dead: dead}
	case pause:
		return d.rest(ctx)
	default:
		return event{Kind: returned, Result: d.callWork(held)}
	}
}

// write sends one write. Outside of a transaction it goes on when the caller has gone: its answer decides whether the
// request is anybody's.
func (d *driver) write(ctx context.Context, over int64, r *Record) event {
	if !d.call.Rules.Transactional {
		if d.call.Phase == claiming && ctx.Err() != nil {
			return d.failed(ctx, context.Cause(ctx))
		}
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), writeWithin)
		defer cancel()
	}
	answer, err := d.records.Write(ctx, Write{
		ID: d.req.ID, Over: over, Record: r, Keep: d.cfg.Keep, NoWait: !d.cfg.Wait,
	})
	switch {
	case err != nil:
		d.trouble = err
		return event{Kind: unknown}
	case answer.Applied:
		return event{Kind: applied, Version: answer.Version}
	case answer.Busy:
		return event{Kind: busy}
	}
	return event{Kind: refused, Seen: d.note(answer.Found)}
}

// ended is the record of how the work ended.
func (d *driver) ended() *Record {
	r := &Record{
		ID: d.req.ID, Fingerprint: d.req.Fingerprint, State: Done, Owner: d.owner, Claim: d.call.Claim,
		Attempt: d.call.Attempt, Reply: d.reply,
	}
	switch {
	case d.failure != nil:
		text := d.failure.Error()
		r.State, r.Reply, r.Failure = Failed, Reply{}, strings.ToValidUTF8(text[:min(len(text), maxFailure)], "")
	case d.reply.Size() > MaxReply:
		r.Reply, r.Omitted = Reply{}, true
	}
	return r
}

func (d *driver) read(ctx context.Context) event {
	f, err := d.records.Read(ctx, d.req.ID)
	if err != nil {
		return d.failed(ctx, err)
	}
	return event{Kind: found, Seen: d.note(f)}
}

// note keeps what was found, and sums it up.
func (d *driver) note(f Found) seen {
	d.found = f.Record
	return seen{
		Version: f.Version, State: f.Record.State, Claim: f.Record.Claim, Print: f.Record.Fingerprint,
		Attempt: f.Record.Attempt, Interrupted: f.Record.Interrupted, Expired: f.Expired,
	}
}

// failed ends the call before anything was done.
func (d *driver) failed(ctx context.Context, err error) event {
	d.trouble = err
	if ctx.Err() != nil {
		return event{Kind: gaveUp}
	}
	return event{Kind: unknown}
}

// rest waits before the next look, longer every time.
func (d *driver) rest(ctx context.Context) event {
	d.pause = min(max(d.pause*3/2, firstPause), lastPause)
	if clock.Sleep(ctx, d.pause/2+rand.N(d.pause)) != nil { //nolint:gosec // spreads load
		return event{Kind: gaveUp}
	}
	return event{Kind: paused}
}

// callWork calls the work. A panic goes on once the failure is kept.
func (d *driver) callWork(held context.Context) result {
	if held.Err() != nil { // the claim took so long that no one waits any more, or that others may take it
		d.failure = context.Cause(held)
		return noEffect
	}
	ctx, cancel := context.WithTimeout(held, d.cfg.Keep)
	defer cancel()
	ctx = withAttempt(ctx, Attempt{Number: d.call.Attempt, Before: d.call.Before, Token: d.call.Version})
	over := false
	defer func() {
		if over {
			return
		}
		d.failure = errors.New("the work panicked")
		if act := d.step(event{Kind: returned, Result: failedWork}); !act.Kind.ends() {
			d.perform(held, held, act)
		}
	}()
	d.reply, d.failure = d.work(ctx)
	over = true
	d.reply.Replayed = false
	switch {
	case d.failure == nil && d.call.Rules.Transactional && d.reply.Size() > MaxReply:
		d.failure = d.tooLarge()
		return failedWork
	case d.failure == nil:
		return succeeded
	case hadNoEffect(d.failure):
		return noEffect
	}
	return failedWork
}

func (d *driver) tooLarge() error {
	return fmt.Errorf("%w: %d bytes, at most %d are allowed", ErrReplyTooLarge, d.reply.Size(), MaxReply)
}

// outcome is what the last action means to the caller.
func (d *driver) outcome(ctx context.Context, how actionKind) (Outcome, error) {
	switch how {
	case endOwn:
		return d.own()
	case endReplay:
		if d.found.Omitted {
			return OutcomeReplayed, fmt.Errorf("%w: it was done before", ErrReplyTooLarge)
		}
		d.reply = d.found.Reply
		d.reply.Replayed = true
		return OutcomeReplayed, nil
	case endMismatch:
		return OutcomeMismatch, ErrMismatch
	case endBusy:
		return OutcomeInProgress, ErrInProgress
	case endFailed:
		return OutcomeFailed, fmt.Errorf("%w: attempt %d: %s", ErrFailed, d.found.Attempt, d.found.Failure)
	case endInterrupted:
		return OutcomeFailed, fmt.Errorf("%w: attempt %d: %w", ErrFailed, d.found.Attempt, ErrInterrupted)
	case endTakenOver:
		return OutcomeTakenOver, errors.Join(ErrTakenOver, d.failure)
	case endNotKept:
		return OutcomeUnknown, errors.Join(ErrNotKept, d.trouble, d.failure)
	case endGaveUp:
		return OutcomeUnknown, context.Cause(ctx)
	default:
		return OutcomeUnknown, errors.Join(ErrUnavailable, d.trouble)
	}
}

// own is what the work returned.
func (d *driver) own() (Outcome, error) {
	switch {
	case d.failure != nil:
		return OutcomeError, d.failure
	case d.reply.Size() > MaxReply:
		return OutcomeDone, d.tooLarge()
	}
	return OutcomeDone, nil
}
