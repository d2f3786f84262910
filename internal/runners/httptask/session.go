package httptask

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/shardctl/shardctl/internal/clock"
	"github.com/shardctl/shardctl/internal/endpoint"
	"github.com/shardctl/shardctl/internal/taskrun"
	"github.com/shardctl/shardctl/pkg/tasks"
)

// The events of messages.
const (
	eventStart = "start"
	eventRenew = "renew"
	eventStop  = "stop"
	eventTick  = "tick"
)

// message is one request to an endpoint.
type message struct {
	event    string
	start    tasks.Start
	validFor time.Duration // how long the endpoint may work on the key, counted from arrival; not of a tick
	idem     string        // Idempotency-Key
}

// errRequestTimeout says an endpoint did not answer in time.
var errRequestTimeout = errors.New("no answer in time")

// errNotSent says that nothing of a message has reached the endpoint.
var errNotSent = errors.New("not sent")

// unansweredError says that a message was sent, perhaps in part, and not answered.
type unansweredError struct{ error }

func (e unansweredError) Unwrap() error { return e.error }

// send sends one message; nil says that the endpoint answered 2xx. An error that wraps errNotSent says that it
// cannot have heard of it.
func (r Runner) send(ctx context.Context, env taskrun.Env, m message) error {
	env.Start = m.start
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	request, err := r.newRequest(ctx, env, m)
	if err != nil {
		return fmt.Errorf("%w: %w", errNotSent, err)
	}
	client, err := r.Client(env)
	if err != nil {
		return fmt.Errorf("%w: %w", errNotSent, err)
	}
	response, err := client.Do(request)
	if err != nil {
		if dial := (*net.OpError)(nil); errors.As(err, &dial) && dial.Op == "dial" {
			return fmt.Errorf("%w: %w", errNotSent, endpoint.WithoutURL(err))
		}
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		return unansweredError{fmt.Errorf("%s: %w", m.event, endpoint.WithoutURL(err))}
	}
	defer func() { _ = response.Body.Close() }() // what counts is the status
	endpoint.Drain(response, cancel)
	if response.StatusCode < 200 || response.StatusCode > 299 {
		return fmt.Errorf("%s: status %s", m.event, response.Status)
	}
	return nil
}

// newRequest makes a message a request, with everything expanded now.
func (r Runner) newRequest(ctx context.Context, env taskrun.Env, m message) (*http.Request, error) {
	body, err := r.body(env)
	if err != nil {
		return nil, err
	}
	request, err := r.Request(ctx, env, body)
	if err != nil {
		return nil, err
	}
	if len(r.JSON) > 0 && request.Header.Get("Content-Type") == "" {
		request.Header.Set("Content-Type", "application/json")
	}
	describe(request.Header, env, m)
	return request, nil
}

// body is that of a request, with everything expanded now. It is the same as long as the variables are.
func (r Runner) body(env taskrun.Env) ([]byte, error) {
	if len(r.JSON) == 0 {
		body, err := env.Expand("http.body", r.Body)
		return []byte(body), err
	}
	object := make(map[string]string, len(r.JSON))
	for name, text := range r.JSON {
		var err error
		if object[name], err = env.Expand("http.json."+name, text); err != nil {
			return nil, err
		}
	}
	return json.Marshal(object)
}

// describe sets what the endpoint needs to know. Nothing that the task's headers say wins over it.
func describe(header http.Header, env taskrun.Env, m message) {
	env.Start = m.start
	endpoint.Describe(header, env, m.event)
	header.Set("Idempotency-Key", m.idem)
	if m.event != eventTick {
		header.Set("Shardctl-Valid-For", seconds(m.validFor))
	}
	if !m.start.ScheduledAt.IsZero() {
		header.Set("Shardctl-Scheduled-At", m.start.Tick())
	}
}

// seconds is d in seconds, with at most three decimals, rounded down: no endpoint gets more time than there is.
func seconds(d time.Duration) string {
	return strconv.FormatFloat(float64(max(0, d).Milliseconds())/1000, 'f', -1, 64)
}

// stopRetry is the time between two tries to stop an endpoint.
const stopRetry = time.Second

// errUnrenewed says an endpoint's time ran out.
var errUnrenewed = errors.New("not renewed before its time was over")

// session is a task that an endpoint holds, under one hold of its key.
type session struct {
	Runner
	env taskrun.Env
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
		if clock.Sleep(ctx, min(wait, time.Until(known))) != nil {
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
	done, err := s.env.HTTP.AcquireSlot(ctx)
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
func (r Runner) Leave(ctx context.Context, env taskrun.Env) {
	s := session{r, env}
	if env.Remote.Until().IsZero() {
		return
	}
	over, cancel := context.WithDeadline(context.WithoutCancel(ctx), env.Remote.Until())
	defer cancel()
	_ = clock.Sleep(over, time.Until(env.Remote.Late())) // the loop looks at over
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
		_ = clock.Sleep(over, stopRetry) // the loop looks at over
	}
	_ = env.Remote.Promise(time.Time{}) // who has not heard waits longer
}
