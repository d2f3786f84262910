package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

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
		if err := c.pace.rest(ctx, wait); err != nil {
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
