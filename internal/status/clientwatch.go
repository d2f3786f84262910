package status

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
)

// ChangeKind is what a message of a watch says.
type ChangeKind string

// The kinds of messages.
const (
	ChangeSnapshot ChangeKind = "snapshot" // Items is the whole list: forget what was there before
	ChangeUpsert   ChangeKind = "upsert"   // Items holds the one item, new or changed
	ChangeDelete   ChangeKind = "delete"   // Items holds the one item as it last was
)

// Change is one message of a watch.
type Change[T any] struct {
	Kind  ChangeKind
	ID    string // opaque; of events, where to go on after a break
	Items []T
	Stale bool // snapshot: the store is unreachable
}

// WatchStatus calls handle with the status and then with each change of it. It ends when ctx ends, the connection
// breaks or handle returns an error, which it then returns. A break is an error too; a caller that wants to go on calls
// again, and begins with a snapshot.
func (c *Client) WatchStatus(ctx context.Context, handle func(*Status) error) error {
	return c.watch(ctx, "/api/v1/status", Filter{}, "", func(_, _ string, data []byte) error {
		var s Status
		if err := json.Unmarshal(data, &s); err != nil {
			return fmt.Errorf("read a change: %w", err)
		}
		return handle(&s)
	})
}

// WatchTasks watches the tasks that the filter selects, as [Client.WatchStatus] does.
func (c *Client) WatchTasks(ctx context.Context, f Filter, handle func(Change[Task]) error) error {
	return watchItems(ctx, c, "/api/v1/tasks", f, "", handle)
}

// WatchGroups watches the groups that the filter selects, as [Client.WatchStatus] does.
func (c *Client) WatchGroups(ctx context.Context, f Filter, handle func(Change[Group]) error) error {
	return watchItems(ctx, c, "/api/v1/groups", f, "", handle)
}

// WatchInstances watches the instances that the filter selects, as [Client.WatchStatus] does.
func (c *Client) WatchInstances(ctx context.Context, f Filter, handle func(Change[Instance]) error) error {
	return watchItems(ctx, c, "/api/v1/instances", f, "", handle)
}

// WatchLocks watches the locks that the filter selects, as [Client.WatchStatus] does.
func (c *Client) WatchLocks(ctx context.Context, f Filter, handle func(Change[Lock]) error) error {
	return watchItems(ctx, c, "/api/v1/locks", f, "", handle)
}

// WatchEvents watches what happens, as [Client.WatchStatus] does. after is the id of the event seen last: those since
// are sent without a snapshot, if it is still known.
func (c *Client) WatchEvents(ctx context.Context, f Filter, after string, handle func(Change[Event]) error) error {
	return watchItems(ctx, c, "/api/v1/events", f, after, handle)
}

func watchItems[T any](
	ctx context.Context, c *Client, path string, f Filter, after string, handle func(Change[T]) error,
) error {
	return c.watch(ctx, path, f, after, func(kind, id string, data []byte) error {
		change := Change[T]{Kind: ChangeKind(kind), ID: id}
		var err error
		if change.Kind == ChangeSnapshot {
			var list List[T]
			err = json.Unmarshal(data, &list)
			change.Items, change.Stale = list.Items, list.Stale
		} else {
			change.Items = make([]T, 1)
			err = json.Unmarshal(data, &change.Items[0])
		}
		if err != nil {
			return fmt.Errorf("read a change of %s: %w", path, err)
		}
		return handle(change)
	})
}

func (c *Client) watch(
	ctx context.Context, path string, f Filter, after string, handle func(kind, id string, data []byte) error,
) error {
	values := f.values()
	values.Set("watch", "true")
	watching, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	begun := func() bool { return true }
	if c.Timeout > 0 {
		begun = time.AfterFunc(c.Timeout, func() { stop(context.DeadlineExceeded) }).Stop
	}
	resp, err := c.do(watching, path, values, "text/event-stream", after)
	begun()
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }() // a stream is never read to its end
	err = readStream(resp.Body, handle)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// maxMessage bounds one message, in bytes: a snapshot of 100,000 tasks is some 50 MB.
const maxMessage = 256 << 20

// errStreamEnded says that the replica ended the stream, as it does when it stops.
var errStreamEnded = errors.New("the replica ended the stream")

// readStream reads server-sent events as our server writes them. They are JSON, with line breaks in data only between
// its parts, so that lines are joined without them.
func readStream(r io.Reader, handle func(kind, id string, data []byte) error) error {
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 0, 64<<10), maxMessage)
	var kind, id string
	var data []byte
	for lines.Scan() {
		line := lines.Text()
		field, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch field {
		case "event":
			kind = value
		case "id":
			id = value
		case "data":
			if data = append(data, value...); len(data) > maxMessage {
				return fmt.Errorf("read the stream: a message of more than %d MiB", maxMessage>>20)
			}
		}
		if line != "" {
			continue
		}
		if data != nil {
			if err := handle(kind, id, data); err != nil {
				return err
			}
		}
		kind, data = "", nil
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("read the stream: %w", err)
	}
	return errStreamEnded
}
