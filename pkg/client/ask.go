package client

import (
	"bytes"
	"context"
	"encoding/json"
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
