package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/shardctl/shardctl/pkg/api"
)

// get reads JSON.
func (c *Client) get(ctx context.Context, path string, values url.Values, into any) error {
	ctx, answered := c.limit(ctx)
	defer answered()
	resp, err := c.read(ctx, path, values, "application/json", "") //nolint:bodyclose // decode closes it
	if err != nil {
		return err
	}
	return c.decode(ctx, path, resp, into)
}

// post sends a change and reads the answer, with its header.
func (c *Client) post(ctx context.Context, path string, body, into any) (http.Header, error) {
	ctx, answered := c.limit(ctx)
	defer answered()
	text, err := json.Marshal(body)
	if err != nil {
		return nil, fmt.Errorf("ask %s: %w", c.base, err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.base+path, bytes.NewReader(text))
	if err != nil {
		return nil, fmt.Errorf("ask %s: %w", c.base, err)
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := c.send(ctx, req) //nolint:bodyclose // decode closes it
	if err != nil {
		return nil, err
	}
	return resp.Header, c.decode(ctx, path, resp, into)
}

func (c *Client) decode(ctx context.Context, path string, resp *http.Response, into any) error {
	defer func() { _ = resp.Body.Close() }() // read to the end or abandoned
	if err := json.NewDecoder(resp.Body).Decode(into); err != nil {
		return fmt.Errorf("read %s of %s: %w", path, c.base, cause(ctx, err))
	}
	return nil
}

// read asks for what can be read, and returns the answer, or an error. lastID is that of the event seen last.
func (c *Client) read(
	ctx context.Context, path string, values url.Values, accept, lastID string,
) (*http.Response, error) {
	target := c.base + path
	if len(values) > 0 {
		target += "?" + values.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, target, http.NoBody)
	if err != nil {
		return nil, fmt.Errorf("ask %s: %w", c.base, err)
	}
	req.Header.Set("Accept", accept)
	if lastID != "" {
		req.Header.Set("Last-Event-ID", lastID)
	}
	return c.send(ctx, req)
}

// send returns an answer that says it is done, or an error.
func (c *Client) send(ctx context.Context, req *http.Request) (*http.Response, error) {
	token, err := c.token()
	if err != nil {
		return nil, fmt.Errorf("ask %s: %w", c.base, err)
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, fmt.Errorf("ask %s: %w", c.base, cause(ctx, err))
	}
	if resp.StatusCode >= http.StatusMultipleChoices {
		defer func() { _ = resp.Body.Close() }() // only the beginning is of interest
		return nil, errorOf(resp)
	}
	return resp, nil
}

// maxProblem bounds what is read of an error, in bytes.
const maxProblem = 64 << 10

// errorOf reads a problem, also where a proxy on the way answered with something else.
func errorOf(resp *http.Response) *api.Error {
	body, _ := io.ReadAll(io.LimitReader(resp.Body, maxProblem)) // what could be read is what there is
	var e api.Error
	if json.Unmarshal(body, &e) != nil || e.Status == 0 {
		e = api.Error{Title: http.StatusText(resp.StatusCode), Detail: string(bytes.TrimSpace(body))}
	}
	e.Status = resp.StatusCode
	if seconds, err := strconv.Atoi(resp.Header.Get("Retry-After")); err == nil && seconds > 0 {
		e.RetryAfter = time.Duration(seconds) * time.Second
	}
	return &e
}

// Filter selects items of a list. Conditions add up; the zero value selects everything. What a list does not take is
// refused: tasks and instances take Group, Instance, State, Selector and Q.
type Filter struct {
	// Names selects by name, and by patterns with *, ? and [a-z]: any of them. Those of tasks, and of their owners, locks
	// and events, are GROUP/NAME. A replica takes 100 of them.
	Names           []string
	Group, Instance string
	State           string    // may be several, by commas
	Kind            string    // of locks; may be several, by commas
	Task            string    // GROUP/NAME, of events
	For             string    // of owners: a key whose slot in Group is meant
	Selector        string    // of labels, as kubectl takes it: "team=core,tier in (a,b),!retired"
	Q               string    // text that occurs
	Since           time.Time // of events
	// Limit is the most items that are read in all; 0: all there are, of events the newest 500.
	Limit int
}

func (f Filter) values() url.Values {
	v := url.Values{}
	for name, value := range map[string]string{
		"group": f.Group, "task": f.Task, "instance": f.Instance, "state": f.State, "kind": f.Kind, "for": f.For,
		"selector": f.Selector, "q": f.Q,
	} {
		if value != "" {
			v.Set(name, value)
		}
	}
	if len(f.Names) > 0 {
		v["name"] = f.Names
	}
	if !f.Since.IsZero() {
		v.Set("since", f.Since.UTC().Format(time.RFC3339Nano))
	}
	return v
}

// all reads a list page by page. One that grew too old on the way is begun again, once.
func all[T any](ctx context.Context, c *Client, path string, f Filter) ([]T, error) {
	items, err := pages[T](ctx, c, path, f)
	if errors.Is(err, errExpired) {
		return pages[T](ctx, c, path, f)
	}
	return items, err
}

func pages[T any](ctx context.Context, c *Client, path string, f Filter) ([]T, error) {
	var items []T
	values := f.values()
	for {
		size := api.MaxLimit
		if f.Limit > 0 {
			size = min(size, f.Limit-len(items))
		}
		values.Set("limit", strconv.Itoa(size))
		var page api.List[T]
		if err := c.get(ctx, path, values, &page); err != nil {
			return nil, err
		}
		c.stale(page.Stale)
		items = append(items, page.Items...)
		if page.Continue == "" || f.Limit > 0 && len(items) >= f.Limit {
			return items, nil
		}
		values.Set("continue", page.Continue)
	}
}

// one reads one object of the cluster.
func one[T any](ctx context.Context, c *Client, path string) (*T, error) {
	answer := api.One[*T]{Item: new(T)}
	if err := c.get(ctx, path, nil, &answer); err != nil {
		return nil, err
	}
	c.stale(answer.Stale)
	return answer.Item, nil
}

// What errors.Is asks for most. For any other reason ask for &api.Error{Reason: …}.
var (
	ErrNotFound     error = &api.Error{Reason: api.ReasonNotFound}            // no such task, group or instance
	ErrUnauthorized error = &api.Error{Reason: api.ReasonUnauthorized}        // no token, or one that is not known
	ErrForbidden    error = &api.Error{Reason: api.ReasonForbidden}           // the token's role does not allow it
	ErrRefused      error = &api.Error{Status: http.StatusConflict}           // a cap or a state forbids the change
	ErrUnavailable  error = &api.Error{Status: http.StatusServiceUnavailable} // try again, after RetryAfter
)

// RefusedError says that a change was refused for some of the tasks that were selected, or for all. What holds for the
// others is in the result. It is an [*api.Error] for each, so errors.Is finds [ErrRefused], [ErrNotFound] and reasons.
type RefusedError struct{ Refused []api.Refusal }

// Error names the first of them.
func (e *RefusedError) Error() string {
	if len(e.Refused) == 0 {
		return "refused"
	}
	first := e.Refused[0]
	text := fmt.Sprintf("refused: %s: %s (%s)", first.Name, first.Message, first.Reason)
	if more := len(e.Refused) - 1; more > 0 {
		text += fmt.Sprintf("; and %d more", more)
	}
	return text
}

// Unwrap is an [*api.Error] for each refusal.
func (e *RefusedError) Unwrap() []error {
	all := make([]error, len(e.Refused))
	for i, r := range e.Refused {
		status := http.StatusConflict
		if r.Reason == api.ReasonNotFound {
			status = http.StatusNotFound
		}
		all[i] = &api.Error{
			Type: "about:blank", Title: http.StatusText(status), Status: status, Reason: r.Reason,
			Detail: r.Name + ": " + r.Message,
		}
	}
	return all
}

// errExpired says that a list cannot be continued any more.
var errExpired error = &api.Error{Status: http.StatusGone}
