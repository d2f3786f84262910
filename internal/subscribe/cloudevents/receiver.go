package cloudevents

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unicode"

	"github.com/shardctl/shardctl/internal/endpoint"
	"github.com/shardctl/shardctl/internal/subscribe"
	"github.com/shardctl/shardctl/internal/subscribe/internal/payload"
	"github.com/shardctl/shardctl/internal/taskrun"
)

// receiver sends messages to an endpoint for one run of a task. It implements [subscribe.Receiver].
type receiver struct {
	sink   Sink // with the defaults filled in
	env    taskrun.Env
	source string // the source attribute of its events

	// Headers of every request, worked out once. They are shared by requests, and not changed.
	described http.Header // what says of which task and run it is
	same      http.Header // attributes that all events have alike
}

// How much of an answer is looked at.
const (
	maxQuoted = 200     // of the body of a refusal, in bytes
	maxFailed = 1 << 20 // of the body of a 207
)

// Batch is the batchSize.
func (r *receiver) Batch() int { return r.sink.BatchSize }

// Close has nothing to end: no request goes on when Deliver has returned.
func (r *receiver) Close(context.Context) error { return nil }

// Deliver sends one request.
func (r *receiver) Deliver(ctx context.Context, deliveries []subscribe.Delivery) []error {
	partial, err := r.send(ctx, deliveries)
	errs := make([]error, len(deliveries))
	for i, d := range deliveries {
		if errs[i] = err; err != nil {
			continue
		}
		if why, ok := partial.Failed[payload.Clean(d.ID)]; ok {
			errs[i] = fmt.Errorf("http: the receiver answered 207 and that this message failed: %s",
				clean([]byte(why)))
			if partial.Dead {
				errs[i] = subscribe.Rejected(errs[i])
			}
		}
	}
	return errs
}

// errTimeout is the cause of a request that has taken too long.
var errTimeout = errors.New("timeout")

// send sends deliveries, and returns which of them have failed. An error is of all of them.
func (r *receiver) send(ctx context.Context, deliveries []subscribe.Delivery) (partial, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, r.sink.Timeout, errTimeout)
	defer cancel()
	request, err := r.newRequest(ctx, deliveries)
	if err != nil {
		return partial{}, err
	}
	client, err := r.sink.Client(r.env)
	if err != nil {
		return partial{}, err
	}
	response, err := do(client, request)
	if err != nil {
		return partial{}, r.unanswered(ctx, err)
	}
	defer func() { _ = response.Body.Close() }() // what counts is the status
	switch {
	case response.StatusCode == http.StatusMultiStatus:
		body, err := io.ReadAll(io.LimitReader(response.Body, maxFailed+1))
		if err != nil {
			return partial{}, r.unanswered(ctx, err)
		}
		return failures(body, deliveries)
	case response.StatusCode >= 200 && response.StatusCode <= 299:
		endpoint.Drain(response, cancel)
		return partial{}, nil
	default:
		return partial{}, refusal(response, endpoint.Said(response, cancel))
	}
}

// do sends a request. Clients follow no redirects, so that the transport of most can be asked directly: a client would
// copy all headers before.
func do(client *http.Client, request *http.Request) (*http.Response, error) {
	if client.Transport == nil || client.Jar != nil || client.Timeout > 0 || request.URL.User != nil {
		return client.Do(request)
	}
	return client.Transport.RoundTrip(request)
}

// unanswered says why there is no answer, or only a part of one.
func (r *receiver) unanswered(ctx context.Context, err error) error {
	err = endpoint.WithoutURL(err)
	switch cause := context.Cause(ctx); {
	case errors.Is(cause, errTimeout):
		return fmt.Errorf("http: the receiver gave no answer within the timeout of %s", r.sink.Timeout)
	case cause != nil:
		return fmt.Errorf("http: %w", cause)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET),
		errors.Is(err, syscall.EPIPE):
		return fmt.Errorf("http: the receiver closed the connection before it had answered: %w", err)
	default:
		return fmt.Errorf("http: %w", err)
	}
}

// refusal is an answer that says that nothing was worked on.
func refusal(response *http.Response, body []byte) error {
	err := fmt.Errorf("http: the receiver answered %s", response.Status)
	if said := clean(body); said != "" {
		err = fmt.Errorf("%w: %s", err, said)
	}
	var answer struct {
		Dead bool `json:"dead"`
	}
	if json.Unmarshal(body, &answer) == nil && answer.Dead {
		return subscribe.Rejected(err)
	}
	wait, asked := retryAfter(response.Header.Get("Retry-After"))
	switch {
	case asked:
		return subscribe.RetryAfter(err, wait)
	case rejects(response.StatusCode):
		return subscribe.Rejected(err)
	}
	return err
}

// rejects says whether a status is about the message: it would be refused again. Other statuses of the 400s are about
// who may send it, the way to the receiver, another owner or the moment. With these it may be taken later.
func rejects(status int) bool {
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound, http.StatusProxyAuthRequired,
		http.StatusRequestTimeout, http.StatusConflict, http.StatusMisdirectedRequest, http.StatusLocked,
		http.StatusFailedDependency, http.StatusTooEarly, http.StatusTooManyRequests:
		return false
	}
	return status >= 400 && status <= 499
}

// retryAfter reads the header: seconds, or a date.
func retryAfter(value string) (wait time.Duration, ok bool) {
	if seconds, err := strconv.ParseUint(value, 10, 31); err == nil {
		return time.Duration(seconds) * time.Second, true
	}
	at, err := http.ParseTime(value)
	return time.Until(at), err == nil
}

// partial is the body of a 207.
type partial struct {
	Failed map[string]string `json:"failed"` // why, by the ID of the message
	Dead   bool              `json:"dead"`   // those are never taken
}

func failures(body []byte, deliveries []subscribe.Delivery) (partial, error) {
	const want = `http: the receiver answered 207, whose body must be {"failed": {"ID": "why", …}}`
	var answer partial
	switch err := json.Unmarshal(body, &answer); {
	case len(body) > maxFailed:
		return answer, fmt.Errorf("%s: it is longer than %d bytes", want, maxFailed)
	case err != nil:
		return answer, fmt.Errorf("%s: %w", want, err)
	case answer.Failed == nil:
		return answer, fmt.Errorf("%s: failed is not there", want)
	}
	for id := range answer.Failed {
		if !slices.ContainsFunc(deliveries, func(d subscribe.Delivery) bool { return payload.Clean(d.ID) == id }) {
			return answer, fmt.Errorf("%s: no message of the request has the id %q", want, clean([]byte(id)))
		}
	}
	return answer, nil
}

// clean is the beginning of what a receiver says, on one line.
func clean(body []byte) string {
	text := strings.ToValidUTF8(string(body[:min(len(body), maxQuoted)]), "")
	return strings.Join(strings.FieldsFunc(text, func(r rune) bool {
		return unicode.IsSpace(r) || !unicode.IsPrint(r)
	}), " ")
}
