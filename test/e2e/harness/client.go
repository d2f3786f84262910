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

// requestTimeout bounds one request: a replica answers from its snapshot, also while the store is unreachable.
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
	code, _, err := c.Ask(ctx, path)
	return code, err
}

// Metric is the value of a metric whose labels include all of these; false when /metrics has none.
func (c *Client) Metric(ctx context.Context, name string, labels map[string]string) (float64, bool, error) {
	body, err := c.Read(ctx, "/metrics")
	if err != nil {
		return 0, false, err
	}
	value, found := findMetric(body, name, labels)
	return value, found, nil
}

// findMetric looks through the text format, one sample a line. It splits labels at commas, so it is for values without
// any.
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
	body, err := c.Read(ctx, path)
	if err != nil {
		return err
	}
	if err := json.Unmarshal([]byte(body), into); err != nil {
		return fmt.Errorf("%s%s: %w", c.Server, path, err)
	}
	return nil
}

// Read is what a path answers, which must be 200.
func (c *Client) Read(ctx context.Context, path string) (string, error) {
	code, body, err := c.Ask(ctx, path)
	if err == nil && code != http.StatusOK {
		err = fmt.Errorf("%s%s: status %d: %s", c.Server, path, code, body)
	}
	return body, err
}

// Ask is what a path answers, whatever the status.
func (c *Client) Ask(ctx context.Context, path string) (code int, body string, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+c.Server+path, http.NoBody)
	if err != nil {
		return 0, "", err
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, "", fmt.Errorf("%s%s: %w", c.Server, path, err)
	}
	return resp.StatusCode, string(text), nil
}
