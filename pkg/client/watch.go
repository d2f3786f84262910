package client

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/url"
	"strings"
	"time"

	"github.com/shardctl/shardctl/pkg/api"
)

// ChangeKind is what a message of a watch says.
type ChangeKind string

// The kinds of messages.
const (
	Snapshot ChangeKind = "snapshot" // Items is the whole list: forget what was there before
	Upsert   ChangeKind = "upsert"   // Items holds the one item, new or changed
	Delete   ChangeKind = "delete"   // Items holds the one item as it last was
)

// Change is one message of a watch.
type Change[T any] struct {
	Kind  ChangeKind
	ID    string // opaque; of events, [WatchOptions].After of a later watch
	Items []T
	Stale bool // of a snapshot: the store is unreachable
}

// WatchOptions say what is watched, and what is called when a connection comes and goes. All calls are made by the
// goroutine that watches.
type WatchOptions struct {
	Filter Filter // without Limit
	After  string // of events: the id of the one seen last; those since are sent, without a snapshot if it is known

	// Connected is called when a connection stands, before its first message.
	Connected func()
	// Broken is called when a connection has broken, and when another one fails. A watch that should not go on ends its
	// context.
	Broken func(err error)
	// Patient has a first connection that fails tried again as well, instead of returning why.
	Patient bool
}

func watchItems[T any](
	ctx context.Context, c *Client, path string, o WatchOptions, handle func(Change[T]) error,
) error {
	return c.watch(ctx, path, o, func(kind, id string, data []byte) error {
		change := Change[T]{Kind: ChangeKind(kind), ID: id}
		var err error
		if change.Kind == Snapshot {
			var list api.List[T]
			err = json.Unmarshal(data, &list)
			change.Items, change.Stale = list.Items, list.Stale
		} else {
			change.Items = make([]T, 1)
			err = json.Unmarshal(data, &change.Items[0])
		}
		if err != nil {
			return fmt.Errorf("read a change of %s: %w", path, err)
		}
		return handled(handle(change))
	})
}

// handlerError is what the caller's own function returned: it ends the watch.
type handlerError struct{ error }

func handled(err error) error {
	if err == nil {
		return nil
	}
	return handlerError{err}
}

// watch keeps a stream, over as many connections as it takes.
func (c *Client) watch(ctx context.Context, path string, o WatchOptions, handle message) error {
	values := o.Filter.values()
	values.Set("watch", "true")
	s := stream{client: c, path: path, values: values, last: o.After, handle: handle}
	wait := c.pace.first
	for stood := o.Patient; ; {
		begun := false
		err := s.run(ctx, func() {
			begun = true
			if o.Connected != nil {
				o.Connected()
			}
		})
		var ours handlerError
		switch {
		case errors.As(err, &ours):
			return ours.error
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case !begun && !stood, refused(err):
			return err
		}
		if begun {
			stood, wait = true, c.pace.first
		}
		if o.Broken != nil {
			o.Broken(err)
		}
		if said, ok := errors.AsType[*api.Error](err); ok {
			wait = max(wait, said.RetryAfter)
		}
		if err := rest(ctx, wait); err != nil {
			return err
		}
		wait = min(2*wait, c.pace.most)
	}
}

// refused says that a replica itself does not want the request: it would not want it again either.
func refused(err error) bool {
	var said *api.Error
	if !errors.As(err, &said) {
		return false
	}
	switch said.Reason {
	case api.ReasonInvalid, api.ReasonUnauthorized, api.ReasonForbidden, api.ReasonMisdirected:
		return true
	default:
		return false
	}
}

// pace is how fast broken watches are made again.
type pace struct {
	first, most time.Duration // of the waits between two connections
	silence     time.Duration // after which a connection counts as broken; a replica sends something every 15 s
}

func defaultPace() pace {
	return pace{first: time.Second, most: 10 * time.Second, silence: 45 * time.Second}
}

// rest waits for about d, less or more by a fifth: those who lost one replica should not all come back at once.
func rest(ctx context.Context, d time.Duration) error {
	d += time.Duration((rand.Float64() - 0.5) * 0.4 * float64(d)) //nolint:gosec // G404: no secret
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// message takes one message of a stream.
type message func(kind, id string, data []byte) error

// stream is what one watch reads. It belongs to one goroutine.
type stream struct {
	client *Client
	path   string
	values url.Values
	last   string // the id of the message seen last
	handle message
}

// The ways in which a connection ends that is not at fault.
var (
	errEnded  = errors.New("the replica ended the stream")
	errSilent = errors.New("nothing has come from the replica for too long")
)

// run reads one connection until it ends, and returns why. begun is called when it stands.
func (s *stream) run(ctx context.Context, begun func()) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	answered := func() bool { return true }
	if s.client.timeout > 0 {
		answered = time.AfterFunc(s.client.timeout, func() { stop(context.DeadlineExceeded) }).Stop
	}
	resp, err := s.client.read(ctx, s.path, s.values, "text/event-stream", s.last)
	answered()
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }() // a stream is never read to its end
	begun()
	silence := s.client.pace.silence
	silent := time.AfterFunc(silence, func() { stop(errSilent) })
	defer silent.Stop()
	err = readStream(heard{resp.Body, func() { silent.Reset(silence) }}, func(kind, id string, data []byte) error {
		silent.Stop() // the caller may take its time
		if err := s.handle(kind, id, data); err != nil {
			return err
		}
		if id != "" {
			s.last = id
		}
		silent.Reset(silence)
		return nil
	})
	if _, ours := errors.AsType[handlerError](err); ours {
		return err
	}
	return cause(ctx, err)
}

// heard reports each part of a stream that arrives.
type heard struct {
	io.Reader

	report func()
}

func (h heard) Read(p []byte) (int, error) {
	n, err := h.Reader.Read(p)
	if n > 0 {
		h.report()
	}
	return n, err
}

// maxMessage bounds one message, in bytes: a snapshot of 100,000 tasks is some 50 MB.
const maxMessage = 256 << 20

// readStream reads server-sent events as replicas write them. They are JSON, with line breaks in data only between its
// parts, so that lines are joined without them.
func readStream(r io.Reader, handle message) error {
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
	return errEnded
}
