package httptask

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/shardctl/shardctl/pkg/internal/sleep"
	"github.com/shardctl/shardctl/pkg/tasks"
)

// stopRetry is the time between two tries to stop an endpoint.
const stopRetry = time.Second

// errUnrenewed says an endpoint's time ran out.
var errUnrenewed = errors.New("not renewed before its time was over")

// session is a task that an endpoint holds, under one hold of its key.
type session struct {
	Runner
	env tasks.Env
}

// run renews, for the endpoint, that the task is its own, until ctx ends. It returns then, or when the
// endpoint could not be reached; what it was promised is ended by leave.
func (s session) run(ctx context.Context) tasks.Ending {
	if err := s.begin(ctx); err != nil {
		return tasks.NotStarted(ctx, err)
	}
	s.env.Status.Running()
	known := s.env.Remote.Until() // what the endpoint is known to have heard; it may have heard more
	wait, troubled := s.env.T/3, false
	for {
		if sleep.For(ctx, min(wait, time.Until(known))) != nil {
			return tasks.Ending{Cut: true}
		}
		if !time.Now().Before(known) {
			return tasks.Ending{Err: errUnrenewed, Code: 1}
		}
		err := s.notify(ctx, eventRenew)
		switch {
		case err == nil:
			known, wait = s.env.Remote.Until(), s.env.T/3
			if troubled {
				s.env.Status.Trouble(nil)
			}
			troubled = false
		case ctx.Err() != nil:
			return tasks.Ending{Cut: true}
		default:
			s.env.Log.Error(err, "Renewing failed: trying again", "token", s.env.Start.Token)
			s.env.Status.Trouble(err)
			wait, troubled = s.env.T/40, true
		}
	}
}

func (s session) begin(ctx context.Context) error {
	s.env.Remote.Begin(s.env.Start)
	done, err := s.env.HTTP.Turn(ctx)
	if err != nil {
		return err
	}
	defer done()
	return s.notify(ctx, eventStart)
}

// notify sends start or renew. The promise is noted, here and by what frees keys, before anything is sent. It ends at
// the hold's deadline. From that the endpoint's seconds are counted back by the longest that the request may be under
// way.
func (s session) notify(ctx context.Context, event string) error {
	remote := s.env.Remote
	before, until := remote.Until(), s.env.Lease.Deadline()
	if _, err := s.validFor(until, time.Now()); err != nil {
		return fmt.Errorf("%s: %w", event, err)
	}
	if until.After(before) {
		if err := remote.Promise(until); err != nil {
			return fmt.Errorf("%s: %w: %w", event, errNotSent, err)
		}
	}
	err := s.sendWhileHeld(ctx, event, until)
	if errors.Is(err, errNotSent) {
		_ = remote.Promise(before) // who has not heard waits longer
	}
	return err
}

// sendWhileHeld counts the endpoint's seconds and the request's time from one moment, after all waiting. So a request
// that arrives at its very end still leaves the endpoint no more than the hold has. One that is under way is not given
// up when ctx ends: it would arrive all the same, after the stop.
func (s session) sendWhileHeld(ctx context.Context, event string, until time.Time) error {
	now := time.Now()
	validFor, err := s.validFor(until, now)
	if err != nil {
		return fmt.Errorf("%s: %w", event, err)
	}
	arrived := now.Add(s.timeout())
	ctx, cancel := context.WithDeadlineCause(context.WithoutCancel(ctx), arrived, errRequestTimeout)
	defer cancel()
	err = s.sendEvent(ctx, event, validFor)
	if _, unanswered := errors.AsType[unansweredError](err); unanswered {
		s.env.Remote.Unanswered(arrived)
	}
	return err
}

// validFor is what a request sent at now may say that the endpoint has, until being the hold's deadline.
func (s session) validFor(until, now time.Time) (time.Duration, error) {
	left, timeout := until.Sub(now), s.timeout()
	if left <= timeout {
		return 0, fmt.Errorf("%w: the lease has %s left, less than the request may take", errNotSent,
			left.Round(time.Millisecond))
	}
	return left - timeout, nil
}

func (s session) timeout() time.Duration { return s.sessionTimeout(s.env.T) }

func (s session) sendEvent(ctx context.Context, event string, validFor time.Duration) error {
	start := s.env.Remote.Start()
	idem := fmt.Sprintf("%s#%d/%s/%d", s.env.Lease.Key(), start.Token, event, s.env.Remote.Next())
	return s.send(ctx, s.env, message{event: event, start: start, validFor: validFor, idem: idem})
}

// Leave returns when the endpoint has acknowledged a stop, or the time that it was promised is over.
func (r Runner) Leave(ctx context.Context, env tasks.Env) {
	s := session{r, env}
	if env.Remote.Until().IsZero() {
		return
	}
	over, cancel := context.WithDeadline(context.WithoutCancel(ctx), env.Remote.Until())
	defer cancel()
	_ = sleep.For(over, time.Until(env.Remote.Late())) // the loop looks at over
	for over.Err() == nil {
		try, cancelTry := context.WithTimeoutCause(over, s.timeout(), errRequestTimeout)
		err := s.sendEvent(try, eventStop, 0)
		cancelTry()
		if err == nil {
			break
		}
		env.Log.Error(
			err, "Stopping was not acknowledged: trying again until its time is over", "token", env.Start.Token,
		)
		_ = sleep.For(over, stopRetry) // the loop looks at over
	}
	_ = env.Remote.Promise(time.Time{}) // who has not heard waits longer
}
