package client

import (
	"context"
	"fmt"
	"io"
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
	// Instance is where it was written, and FencingToken that of the task's newest start there. Empty and 0: a replica
	// of an older version does not say.
	Instance     string
	FencingToken int64
	Ended        bool // the task is not held on that instance any more
}

// LogOptions select from what a task wrote.
type LogOptions = api.LogOptions

// Logs reads what a task wrote since its owner has it. The owner is asked for it, through the replica that answers.
// While no one owns the task, what it wrote last may still be kept: [Output].Ended says so.
func (t Tasks) Logs(ctx context.Context, group, name string, o LogOptions) (*Output, error) {
	ctx, answered := t.c.limit(ctx)
	defer answered()
	resp, err := t.c.read(ctx, taskPath(group, name)+"/logs", o.Values(), "text/plain", "")
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }() // read to the end or abandoned
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, fmt.Errorf("read output of %s/%s: %w", group, name, cause(ctx, err))
	}
	h := resp.Header
	token, _ := strconv.ParseInt(h.Get(api.LogTokenHeader), 10, 64) // absent: 0
	return &Output{
		Text: string(text), Position: h.Get(api.LogPositionHeader), Instance: h.Get(api.LogInstanceHeader),
		FencingToken: token, Ended: h.Get(api.LogEndedHeader) != "",
	}, nil
}
