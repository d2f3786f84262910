package tasks

import (
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
)

// The events that a far side is told.
const (
	eventStart = "start"
	eventRenew = "renew"
	eventStop  = "stop"
	eventTick  = "tick"
)

// message is one request to a far side.
type message struct {
	event    string
	start    start
	validFor time.Duration // how long the far side may work on the key, counted from arrival; not of a tick
	idem     string        // Idempotency-Key
}

// request runs the task once as a single request. What was sent cannot be called back: for that there is the token.
func (r *running) request(ctx context.Context, st start) ending {
	r.report(StateRunning)
	idem := string(r.hold.Key()) + "@" + scheduledAt(st.scheduledAt)
	ctx, cancel := context.WithTimeoutCause(ctx, cmp.Or(r.task.HTTP.Timeout, DefaultHTTPTimeout), errRequestTimeout)
	defer cancel()
	err := r.send(ctx, message{event: eventTick, start: st, idem: idem})
	if err != nil {
		cause := context.Cause(ctx)
		return ending{err: err, code: 1, byItself: true, cut: cause != nil && !errors.Is(cause, errRequestTimeout)}
	}
	return ending{byItself: true}
}

// errRequestTimeout says a far side did not answer in time.
var errRequestTimeout = errors.New("no answer in time")

// errNotSent says that nothing of a message has reached the far side.
var errNotSent = errors.New("not sent")

// send sends one message; nil says that the far side answered 2xx. An error that wraps errNotSent says that it cannot have heard of it.
func (r *running) send(ctx context.Context, m message) error {
	request, err := r.newRequest(ctx, m)
	if err != nil {
		return fmt.Errorf("%w: %w", errNotSent, err)
	}
	caFile, err := r.expand(m.start, "tls.caFile", r.task.HTTP.CAFile)
	if err != nil {
		return fmt.Errorf("%w: %w", errNotSent, err)
	}
	client, err := r.s.cfg.HTTPClient(caFile)
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
func (r *running) newRequest(ctx context.Context, m message) (*http.Request, error) {
	h := r.task.HTTP
	target, err := r.expand(m.start, "url", h.URL)
	if err != nil {
		return nil, err
	}
	body, err := r.expand(m.start, "body", h.Body)
	if err != nil {
		return nil, err
	}
	request, err := http.NewRequestWithContext(ctx, h.Method, target, strings.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("http.url: %w", withoutURL(err))
	}
	for name, value := range h.Headers {
		if value, err = r.expand(m.start, "headers."+name, value); err != nil {
			return nil, err
		}
		if request.Header.Set(name, value); strings.EqualFold(name, "Host") {
			request.Host = value
		}
	}
	if err := r.authorize(request, m); err != nil {
		return nil, err
	}
	r.describe(request.Header, m)
	return request, nil
}

// authorize sets the bearer token, read anew each time since it may be replaced.
func (r *running) authorize(request *http.Request, m message) error {
	path, err := r.expand(m.start, "tokenFile", r.task.HTTP.TokenFile)
	if err != nil || path == "" {
		return err
	}
	token, err := readExpanded(path)
	if err != nil {
		return fmt.Errorf("http.tokenFile: %w", err)
	}
	request.Header.Set("Authorization", "Bearer "+strings.TrimSpace(token))
	return nil
}

// describe sets what the far side needs to know. Nothing that the task's headers say wins over it.
func (r *running) describe(header http.Header, m message) {
	header.Set("Shardctl-Task", r.task.Name)
	header.Set("Shardctl-Group", r.task.Group)
	header.Set("Shardctl-Key", string(r.hold.Key()))
	header.Set("Shardctl-Fencing-Token", strconv.FormatInt(m.start.token, 10))
	header.Set("Shardctl-Instance", r.s.cfg.Instance)
	header.Set("Shardctl-Event", m.event)
	header.Set("Idempotency-Key", m.idem)
	if m.event != eventTick {
		header.Set("Shardctl-Valid-For", seconds(m.validFor))
	}
	if !m.start.scheduledAt.IsZero() {
		header.Set("Shardctl-Scheduled-At", scheduledAt(m.start.scheduledAt))
	}
}

// seconds is d in seconds, with at most three decimals, rounded down: nobody is told that he has more time than he has.
func seconds(d time.Duration) string {
	return strconv.FormatFloat(float64(max(0, d).Milliseconds())/1000, 'f', -1, 64)
}

func (r *running) expand(st start, field, text string) (string, error) {
	value, err := Expand(text, lookup(r.own(st), parseEnviron(r.s.cfg.Environ())))
	if err != nil {
		return "", fmt.Errorf("http.%s: %w", field, err)
	}
	return value, nil
}
