package httptask

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/shardctl/shardctl/pkg/tasks"
	"github.com/shardctl/shardctl/pkg/tasks/decode"
)

// The events of messages.
const (
	eventStart = "start"
	eventRenew = "renew"
	eventStop  = "stop"
	eventTick  = "tick"
	eventBatch = "batch"
)

// message is one request to an endpoint.
type message struct {
	event    string
	start    tasks.Start
	validFor time.Duration // how long the endpoint may work on the key, counted from arrival; not of a tick
	idem     string        // Idempotency-Key
	batch    *tasks.Batch  // in place of the configured body; nil: that
}

// errRequestTimeout says an endpoint did not answer in time.
var errRequestTimeout = errors.New("no answer in time")

// errNotSent says that nothing of a message has reached the endpoint.
var errNotSent = errors.New("not sent")

// send sends one message; nil says that the endpoint answered 2xx. An error that wraps errNotSent says that it
// cannot have heard of it.
func (r Runner) send(ctx context.Context, env tasks.Env, m message) error {
	env.Start = m.start
	request, err := r.newRequest(ctx, env, m)
	if err != nil {
		return fmt.Errorf("%w: %w", errNotSent, err)
	}
	caFile, err := env.Expand("http.tls.caFile", r.CAFile)
	if err != nil {
		return fmt.Errorf("%w: %w", errNotSent, err)
	}
	client, err := env.HTTP.Client(caFile)
	if err != nil {
		return fmt.Errorf("%w: %w", errNotSent, err)
	}
	response, err := client.Do(request)
	if err != nil {
		if dial := (*net.OpError)(nil); errors.As(err, &dial) && dial.Op == "dial" {
			return fmt.Errorf("%w: %w", errNotSent, withoutURL(err))
		}
		if cause := context.Cause(ctx); cause != nil {
			return fmt.Errorf("%s: %w", m.event, cause)
		}
		return fmt.Errorf("%s: %w", m.event, withoutURL(err))
	}
	defer func() { _ = response.Body.Close() }()       // what counts is the status
	_, _ = io.CopyN(io.Discard, response.Body, 64<<10) // so that the connection can be used again
	if response.StatusCode < 200 || response.StatusCode > 299 {
		return fmt.Errorf("%s: status %s", m.event, response.Status)
	}
	return nil
}

// withoutURL is an HTTP client's error less the URL, in which there may be what a variable brought in.
func withoutURL(err error) error {
	if e := (*url.Error)(nil); errors.As(err, &e) {
		return e.Err
	}
	return err
}

// newRequest makes a message a request, with everything expanded now.
func (r Runner) newRequest(ctx context.Context, env tasks.Env, m message) (*http.Request, error) {
	target, err := env.Expand("http.url", r.URL)
	if err != nil {
		return nil, err
	}
	body, err := r.body(env, m)
	if err != nil {
		return nil, err
	}
	request, err := http.NewRequestWithContext(ctx, cmp.Or(r.Method, DefaultMethod), target, bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("http.url: %w", withoutURL(err))
	}
	for name, value := range r.Headers {
		if value, err = env.Expand("http.headers."+name, value); err != nil {
			return nil, err
		}
		if request.Header.Set(name, value); strings.EqualFold(name, "Host") {
			request.Host = value
		}
	}
	if err := r.authorize(request, env); err != nil {
		return nil, err
	}
	describe(request.Header, env, m)
	return request, nil
}

func (r Runner) body(env tasks.Env, m message) ([]byte, error) {
	if m.batch != nil {
		return m.batch.Body, nil
	}
	body, err := env.Expand("http.body", r.Body)
	return []byte(body), err
}

// authorize sets the bearer token, read again each time since it may be replaced.
func (r Runner) authorize(request *http.Request, env tasks.Env) error {
	path, err := env.Expand("http.tokenFile", r.TokenFile)
	if err != nil || path == "" {
		return err
	}
	token, err := decode.ReadFile(path)
	if err != nil {
		return fmt.Errorf("http.tokenFile: %w", err)
	}
	request.Header.Set("Authorization", "Bearer "+strings.TrimSpace(token))
	return nil
}

// describe sets what the endpoint needs to know. Nothing that the task's headers say wins over it.
func describe(header http.Header, env tasks.Env, m message) {
	header.Set("Shardctl-Task", env.Name)
	header.Set("Shardctl-Group", env.Group)
	header.Set("Shardctl-Key", string(env.Lease.Key()))
	header.Set("Shardctl-Fencing-Token", strconv.FormatInt(m.start.Token, 10))
	header.Set("Shardctl-Instance", env.Instance)
	header.Set("Shardctl-Event", m.event)
	header.Set("Idempotency-Key", m.idem)
	if m.event != eventTick && m.event != eventBatch {
		header.Set("Shardctl-Valid-For", seconds(m.validFor))
	}
	if m.batch != nil && m.batch.Type != "" {
		header.Set("Content-Type", m.batch.Type)
	}
	if !m.start.ScheduledAt.IsZero() {
		header.Set("Shardctl-Scheduled-At", m.start.Tick())
	}
	if env.Trace.Parent != "" {
		header.Set("Traceparent", env.Trace.Parent)
		header.Del("Tracestate")
	}
	if env.Trace.State != "" {
		header.Set("Tracestate", env.Trace.State)
	}
}

// seconds is d in seconds, with at most three decimals, rounded down: no endpoint gets more time than there is.
func seconds(d time.Duration) string {
	return strconv.FormatFloat(float64(max(0, d).Milliseconds())/1000, 'f', -1, 64)
}
