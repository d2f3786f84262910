// Package function is the sink that calls a Go function for each message.
//
// [Handle] registers the function by a name, which the field callback of deliver then names.
package function

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"

	"github.com/shardctl/shardctl/internal/decode"
	"github.com/shardctl/shardctl/internal/kind"
	"github.com/shardctl/shardctl/internal/runners/callback"
	"github.com/shardctl/shardctl/internal/subscribe"
	"github.com/shardctl/shardctl/internal/taskrun"
	"github.com/shardctl/shardctl/pkg/tasks"
)

// Name is the field of deliver that chooses this sink.
const Name = callback.Name

// Handler works on one message. Returning nil acknowledges it. After an error or a panic it comes again, as the
// subscription's retry says. It may be called concurrently, for as many messages as maxInFlight.
//
// ctx ends, with a cause, when the work has to stop. The handler must then return soon, since the task's key is not
// handed over while it runs. The lease is run.Lease: a long step may ask it before it begins. The token is run.Token:
// what the handler writes to should refuse smaller ones than it has seen.
type Handler func(ctx context.Context, d subscribe.Delivery, run tasks.Run) error

// Handle registers a handler under a name. It fails when the name is empty or taken, or the handler is nil.
func Handle(registry *tasks.Registry, name string, handler Handler) error {
	if handler == nil {
		return fmt.Errorf("register handler %q: it is nil", name)
	}
	return registry.Register(name, func(ctx context.Context, run tasks.Run) error {
		d, ok := FromContext(ctx)
		if !ok {
			return fmt.Errorf("callback %q takes messages: it belongs in deliver, not in a task of its own", name)
		}
		return handler(ctx, d, run)
	})
}

type deliveryKey struct{}

// FromContext is the message that a callback was called for. It is for callbacks that are registered without [Handle].
func FromContext(ctx context.Context) (subscribe.Delivery, bool) {
	d, ok := ctx.Value(deliveryKey{}).(subscribe.Delivery)
	return d, ok
}

// Kind reads sinks from a configuration.
var Kind = decode.Kind[subscribe.Sink]{
	Field: Name,
	Form: func() string {
		return `{"description": "Calls a Go function registered under this name for each message.", "$ref": "#/$defs/text"}`
	},
	Read: func(n *decode.Node, r *decode.Reader) subscribe.Sink { return Sink(r.Text(n, "")) },
}

// Sink calls the function that is registered under its name.
type Sink string

// Kind is "callback".
func (s Sink) Kind() string { return Name }

// Validate checks that a function of that name is registered.
func (s Sink) Validate(use kind.Use) []decode.FieldError { return callback.Runner(s).Validate(use) }

// Print is the name.
func (s Sink) Print(kind.Use) any { return string(s) }

// Open finds the function.
func (s Sink) Open(_ context.Context, env taskrun.Env, _ string) (subscribe.Receiver, error) {
	call, err := callback.Runner(s).Lookup(env.Callbacks)
	if err != nil {
		return nil, err
	}
	return &receiver{name: string(s), call: call, run: env.Run()}, nil
}

// receiver calls a function for one run of a task. It implements [subscribe.Receiver].
type receiver struct {
	name  string
	call  tasks.Callback
	run   tasks.Run
	calls sync.WaitGroup
}

// Batch is 1: several calls go on at once where several deliveries do.
func (r *receiver) Batch() int { return 1 }

// Deliver calls the function for each message in turn.
func (r *receiver) Deliver(ctx context.Context, deliveries []subscribe.Delivery) []error {
	errs := make([]error, len(deliveries))
	for i, d := range deliveries {
		errs[i] = r.deliver(ctx, d)
	}
	return errs
}

// deliver returns when the function has, or when ctx ends: Close waits for the function then.
func (r *receiver) deliver(ctx context.Context, d subscribe.Delivery) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	returned := make(chan error, 1)
	r.calls.Go(func() { r.handle(context.WithValue(ctx, deliveryKey{}, d), returned) })
	select {
	case err := <-returned:
		return err
	case <-ctx.Done():
	}
	select {
	case err := <-returned: // both came at once
		return err
	default:
		return fmt.Errorf("callback %q has not returned: %w", r.name, context.Cause(ctx))
	}
}

// errGoexit says that a function neither returned nor panicked.
var errGoexit = errors.New("the callback called runtime.Goexit")

// handle calls the function, in a goroutine of its own, so that neither a panic nor Goexit ends what delivers.
func (r *receiver) handle(ctx context.Context, returned chan<- error) {
	err := errGoexit
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("callback %q panicked: %v", r.name, p)
			r.run.Logger.Error(err, "A callback panicked", "stack", string(debug.Stack()))
		}
		returned <- err
	}()
	err = r.call(ctx, r.run)
}

// Close waits until no call goes on, whatever that takes: the key must not be handed over before.
func (r *receiver) Close(context.Context) error {
	r.calls.Wait()
	return nil
}
