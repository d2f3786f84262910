package httptask

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/shardctl/shardctl/pkg/tasks"
	"github.com/shardctl/shardctl/pkg/tasks/internal/endpoint"
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
func (r Runner) send(ctx context.Context, env tasks.Env, m message) error {
	env.Start = m.start
	request, err := r.newRequest(ctx, env, m)
	if err != nil {
		return fmt.Errorf("%w: %w", errNotSent, err)
	}
	client, err := r.endpoint().Client(env)
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
	defer func() { _ = response.Body.Close() }()       // what counts is the status
	_, _ = io.CopyN(io.Discard, response.Body, 64<<10) // so that the connection can be used again
	if response.StatusCode < 200 || response.StatusCode > 299 {
		return fmt.Errorf("%s: status %s", m.event, response.Status)
	}
	return nil
}

// newRequest makes a message a request, with everything expanded now.
func (r Runner) newRequest(ctx context.Context, env tasks.Env, m message) (*http.Request, error) {
	body, err := env.Expand("http.body", r.Body)
	if err != nil {
		return nil, err
	}
	request, err := r.endpoint().Request(ctx, env, []byte(body))
	if err != nil {
		return nil, err
	}
	describe(request.Header, env, m)
	return request, nil
}

// describe sets what the endpoint needs to know. Nothing that the task's headers say wins over it.
func describe(header http.Header, env tasks.Env, m message) {
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
