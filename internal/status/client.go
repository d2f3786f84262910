package status

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
	"strings"
	"time"
)

// Client reads the API of a replica; each replica answers for the whole cluster. It may be used from many goroutines.
//
// Errors of the API are *[Error]; everything else says that the replica was not reached, and is a *url.Error inside.
type Client struct {
	BaseURL string       // as http://127.0.0.1:8081, with or without a slash at its end
	HTTP    *http.Client // nil: [http.DefaultClient]
	Token   string       // sent as a bearer token; empty: none
	// Timeout bounds each request: all of it, or, of a watch, the time until it begins. 0: no limit but the context's.
	Timeout time.Duration
}

// Filter selects items of a list. Conditions add up; which of them a list takes is said in openapi.json.
type Filter struct {
	Group, Instance, State string // State may be several, by commas
	Selector               string // as kubectl takes it
	Q                      string // text that occurs
	Since                  time.Time
	// Limit is the most items that are read in all; 0: all there are, of events the newest 500.
	Limit int
}

func (f Filter) values() url.Values {
	v := url.Values{}
	for name, value := range map[string]string{
		"group": f.Group, "instance": f.Instance, "state": f.State, "selector": f.Selector, "q": f.Q,
	} {
		if value != "" {
			v.Set(name, value)
		}
	}
	if !f.Since.IsZero() {
		v.Set("since", f.Since.UTC().Format(time.RFC3339Nano))
	}
	return v
}

// Status reads the cluster on one screen.
func (c *Client) Status(ctx context.Context) (*Status, error) {
	var s Status
	return &s, c.get(ctx, "/api/v1/status", nil, &s)
}

// Tasks reads all tasks that the filter selects, by key.
func (c *Client) Tasks(ctx context.Context, f Filter) ([]Task, error) {
	return readAll[Task](ctx, c, "/api/v1/tasks", f)
}

// Task reads one task.
func (c *Client) Task(ctx context.Context, group, name string) (*Task, error) {
	var t Task
	return &t, c.get(ctx, "/api/v1/tasks/"+url.PathEscape(group)+"/"+url.PathEscape(name), nil, &t)
}

// Groups reads all groups that the filter selects, by name.
func (c *Client) Groups(ctx context.Context, f Filter) ([]Group, error) {
	return readAll[Group](ctx, c, "/api/v1/groups", f)
}

// Instances reads all instances that the filter selects, by name.
func (c *Client) Instances(ctx context.Context, f Filter) ([]Instance, error) {
	return readAll[Instance](ctx, c, "/api/v1/instances", f)
}

// Locks reads all locks that the filter selects, by key.
func (c *Client) Locks(ctx context.Context, f Filter) ([]Lock, error) {
	return readAll[Lock](ctx, c, "/api/v1/locks", f)
}

// Events reads what happened, newest first: Filter.Limit of them, 0: 500.
func (c *Client) Events(ctx context.Context, f Filter) ([]Event, error) {
	if f.Limit == 0 {
		f.Limit = DefaultLimit
	}
	return readAll[Event](ctx, c, "/api/v1/events", f)
}

// Livez asks whether the process behind BaseURL answers.
func (c *Client) Livez(ctx context.Context) error {
	ctx, answered := c.limit(ctx)
	defer answered()
	resp, err := c.do(ctx, "/livez", nil, "text/plain", "")
	if err != nil {
		return err
	}
	return resp.Body.Close()
}

// readAll reads page after page. When a list grows too old on the way (410) it is begun once more.
func readAll[T any](ctx context.Context, c *Client, path string, f Filter) ([]T, error) {
	items, err := readPages[T](ctx, c, path, f)
	var e *Error
	if errors.As(err, &e) && e.Status == http.StatusGone {
		return readPages[T](ctx, c, path, f)
	}
	return items, err
}

func readPages[T any](ctx context.Context, c *Client, path string, f Filter) ([]T, error) {
	var items []T
	values := f.values()
	for {
		size := MaxLimit
		if f.Limit > 0 {
			size = min(size, f.Limit-len(items))
		}
		values.Set("limit", strconv.Itoa(size))
		var page List[T]
		if err := c.get(ctx, path, values, &page); err != nil {
			return nil, err
		}
		items = append(items, page.Items...)
		if page.Continue == "" || f.Limit > 0 && len(items) >= f.Limit {
			return items, nil
		}
		values.Set("continue", page.Continue)
	}
}

func (c *Client) get(ctx context.Context, path string, values url.Values, into any) error {
	ctx, answered := c.limit(ctx)
	defer answered()
	resp, err := c.do(ctx, path, values, "application/json", "")
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }() // read to the end or abandoned
	if err := json.NewDecoder(resp.Body).Decode(into); err != nil {
		return fmt.Errorf("read %s of %s: %w", path, c.BaseURL, cause(ctx, err))
	}
	return nil
}

// limit is ctx, ended after the timeout unless answered is called before.
func (c *Client) limit(ctx context.Context) (limited context.Context, answered func()) {
	limited, cancel := context.WithCancelCause(ctx)
	if c.Timeout <= 0 {
		return limited, func() { cancel(nil) }
	}
	timer := time.AfterFunc(c.Timeout, func() { cancel(context.DeadlineExceeded) })
	return limited, func() { timer.Stop(); cancel(nil) }
}

// cause is why ctx has ended, else err.
func cause(ctx context.Context, err error) error {
	if why := context.Cause(ctx); why != nil {
		return why
	}
	return err
}

// do asks and returns an answer with status 200, or an error.
func (c *Client) do(
	ctx context.Context, path string, values url.Values, accept, lastID string,
) (*http.Response, error) {
	u := strings.TrimSuffix(c.BaseURL, "/") + path
	if len(values) > 0 {
		u += "?" + values.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u, http.NoBody)
	if err != nil {
		return nil, fmt.Errorf("ask %s: %w", c.BaseURL, err)
	}
	req.Header.Set("Accept", accept)
	if lastID != "" {
		req.Header.Set("Last-Event-ID", lastID)
	}
	if c.Token != "" {
		req.Header.Set("Authorization", "Bearer "+c.Token)
	}
	client := c.HTTP
	if client == nil {
		client = http.DefaultClient
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("ask %s: %w", c.BaseURL, cause(ctx, err))
	}
	if resp.StatusCode != http.StatusOK {
		defer func() { _ = resp.Body.Close() }() // only the beginning is of interest
		return nil, errorFrom(resp)
	}
	return resp, nil
}

// maxProblem bounds what is read of an error, in bytes.
const maxProblem = 64 << 10

// errorFrom reads a problem, also where a proxy on the way answered with something else.
func errorFrom(resp *http.Response) *Error {
	body, _ := io.ReadAll(io.LimitReader(resp.Body, maxProblem)) // what could be read is what there is
	var e Error
	if json.Unmarshal(body, &e) != nil || e.Status == 0 {
		e = Error{Title: http.StatusText(resp.StatusCode), Detail: string(bytes.TrimSpace(body))}
	}
	e.Status = resp.StatusCode
	return &e
}
