//go:build linux

package harness

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// requestTimeout bounds one request: a replica answers from its snapshot, also while the store is away.
const requestTimeout = 5 * time.Second

// Client reads the HTTP interface of one replica.
type Client struct {
	Server string // host:port of server.listen
	Admin  string // host:port of admin.listen
	http   *http.Client
}

func newClient(server, admin string) *Client {
	return &Client{Server: server, Admin: admin, http: &http.Client{Timeout: requestTimeout}}
}

// AdminURL is what the command line's --server wants.
func (c *Client) AdminURL() string { return "http://" + c.Admin }

// Status reads /api/v1/status.
func (c *Client) Status(ctx context.Context) (Status, error) {
	var s Status
	return s, c.get(ctx, "/api/v1/status", &s)
}

// Tasks reads all pages of /api/v1/tasks.
func (c *Client) Tasks(ctx context.Context) ([]Task, error) {
	return list[Task](ctx, c, "/api/v1/tasks")
}

// Instances reads all pages of /api/v1/instances.
func (c *Client) Instances(ctx context.Context) ([]Instance, error) {
	return list[Instance](ctx, c, "/api/v1/instances")
}

// Health asks /livez or /readyz and returns the status code.
func (c *Client) Health(ctx context.Context, path string) (int, error) {
	code, _, err := c.do(ctx, path)
	return code, err
}

// Metric is the value of a metric whose labels include all of these; false when /metrics has none.
func (c *Client) Metric(ctx context.Context, name string, labels map[string]string) (float64, bool, error) {
	code, body, err := c.do(ctx, "/metrics")
	if err != nil {
		return 0, false, err
	}
	if code != http.StatusOK {
		return 0, false, fmt.Errorf("/metrics: status %d", code)
	}
	value, found := findMetric(string(body), name, labels)
	return value, found, nil
}

// findMetric looks through the text format, one sample a line. It splits labels at commas, so it is for values without any.
func findMetric(text, name string, labels map[string]string) (float64, bool) {
	for line := range strings.Lines(text) {
		series, value, ok := strings.Cut(strings.TrimSpace(line), "} ")
		metric, list, _ := strings.Cut(series, "{")
		if !ok {
			metric, value, _ = strings.Cut(strings.TrimSpace(line), " ")
			list = ""
		}
		if metric != name || !hasLabels(list, labels) {
			continue
		}
		if f, err := strconv.ParseFloat(value, 64); err == nil {
			return f, true
		}
	}
	return 0, false
}

func hasLabels(list string, labels map[string]string) bool {
	have := map[string]bool{}
	for pair := range strings.SplitSeq(list, ",") {
		have[pair] = true
	}
	for label, value := range labels {
		if !have[fmt.Sprintf("%s=%q", label, value)] {
			return false
		}
	}
	return true
}

type page[T any] struct {
	Items    []T    `json:"items"`
	Continue string `json:"continue"`
}

func list[T any](ctx context.Context, c *Client, path string) ([]T, error) {
	var all []T
	for next := ""; ; {
		var p page[T]
		if err := c.get(ctx, path+"?limit=5000&continue="+url.QueryEscape(next), &p); err != nil {
			return nil, err
		}
		all = append(all, p.Items...)
		if next = p.Continue; next == "" {
			return all, nil
		}
	}
}

func (c *Client) get(ctx context.Context, path string, into any) error {
	code, body, err := c.do(ctx, path)
	if err != nil {
		return err
	}
	if code != http.StatusOK {
		return fmt.Errorf("%s%s: status %d: %s", c.Server, path, code, body)
	}
	if err := json.Unmarshal(body, into); err != nil {
		return fmt.Errorf("%s%s: %w", c.Server, path, err)
	}
	return nil
}

func (c *Client) do(ctx context.Context, path string) (int, []byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+c.Server+path, http.NoBody)
	if err != nil {
		return 0, nil, err
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, nil, fmt.Errorf("%s%s: %w", c.Server, path, err)
	}
	return resp.StatusCode, body, nil
}
