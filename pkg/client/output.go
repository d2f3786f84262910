package client

import (
	"context"
	"fmt"
	"io"
	"net/url"
	"strconv"

	"github.com/shardctl/shardctl/pkg/api"
)

// Runs reads the last runs of a task with ticks, or of one that runs once, the newest first. Output and errors are
// hidden from who may not see them.
func (t Tasks) Runs(ctx context.Context, group, name string) ([]api.Run, error) {
	list, err := one[api.List[api.Run]](ctx, t.c, taskPath(group, name)+"/runs")
	if err != nil {
		return nil, err
	}
	return list.Items, nil
}

// Output is a part of what a task wrote.
type Output struct {
	Text string // whole lines
	// Position is up to where it goes. It is opaque, and [LogOptions].After of the next call.
	Position string
}

// LogOptions select from what a task wrote.
type LogOptions struct {
	Tail  int    // at most so many lines, up to 1000, the newest; 0: all that are kept
	After string // a position that an earlier answer gave: only what was written since; empty: all
}

// Logs reads what a task wrote lately. Its owner is asked for it, through the replica that answers.
func (t Tasks) Logs(ctx context.Context, group, name string, o LogOptions) (*Output, error) {
	values := url.Values{}
	if o.Tail != 0 {
		values.Set("tail", strconv.Itoa(o.Tail))
	}
	if o.After != "" {
		values.Set("after", o.After)
	}
	ctx, answered := t.c.limit(ctx)
	defer answered()
	resp, err := t.c.read(ctx, taskPath(group, name)+"/logs", values, "text/plain", "")
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }() // read to the end or abandoned
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, fmt.Errorf("read output of %s/%s: %w", group, name, cause(ctx, err))
	}
	return &Output{Text: string(text), Position: resp.Header.Get(api.LogPositionHeader)}, nil
}
