//go:build linux

package harness

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
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

// ClientAt reads the HTTP interface of a replica that somebody else started. An address may end with a path, for one
// that is reached through a proxy.
func ClientAt(server, admin string) *Client { return newClient(server, admin) }

// The documents of the HTTP interface, as far as scenarios read them. They are written down again rather than taken
// from the program, so that a renamed field is found.

// Status is /api/v1/status.
type Status struct {
	Cluster  string        `json:"cluster"`
	Instance string        `json:"instance"`
	Stale    bool          `json:"stale"`
	Ready    bool          `json:"ready"`
	Draining bool          `json:"draining"`
	Store    StoreStatus   `json:"store"`
	Groups   []GroupStatus `json:"groups"`
	Problems []Problem     `json:"problems"`
}

// StoreStatus says how the store does.
type StoreStatus struct {
	Kind      string `json:"kind"`
	Reachable bool   `json:"reachable"`
	Error     string `json:"error"`
}

// GroupStatus counts the tasks of a group by state.
type GroupStatus struct {
	Name       string `json:"name"`
	Cap        *int   `json:"cap"`
	Tasks      int    `json:"tasks"`
	Running    int    `json:"running"`
	Starting   int    `json:"starting"`
	Stopping   int    `json:"stopping"`
	Backoff    int    `json:"backoff"`
	Unassigned int    `json:"unassigned"`
	Capacity   *int   `json:"capacity"`
	Headroom   int    `json:"headroom"`
	Imbalance  int    `json:"imbalance"`
}

// Problem is something wrong, and why.
type Problem struct {
	Reason   string `json:"reason"`
	Severity string `json:"severity"`
	Message  string `json:"message"`
	Group    string `json:"group"`
	Task     string `json:"task"`
	Instance string `json:"instance"`
}

// Task is one of /api/v1/tasks.
type Task struct {
	Key          string `json:"key"`
	State        string `json:"state"`
	Instance     string `json:"instance"`
	Session      string `json:"session"`
	FencingToken int64  `json:"fencingToken"`
	Reason       string `json:"reason"`
	Message      string `json:"message"`
	Restarts     int    `json:"restarts"`
	LastError    string `json:"lastError"`
}

// Instance is one of /api/v1/instances.
type Instance struct {
	Name    string         `json:"name"`
	Session string         `json:"session"`
	State   string         `json:"state"`
	Owned   map[string]int `json:"owned"`
	Caps    map[string]int `json:"caps"`
}

// Group is the status of one group, zero when there is none.
func (s Status) Group(name string) GroupStatus {
	for _, g := range s.Groups {
		if g.Name == name {
			return g
		}
	}
	return GroupStatus{}
}

// ProblemsOf are the problems with a reason.
func (s Status) ProblemsOf(reason string) []Problem {
	return slices.DeleteFunc(slices.Clone(s.Problems), func(p Problem) bool { return p.Reason != reason })
}
