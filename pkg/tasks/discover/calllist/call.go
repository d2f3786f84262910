// Package calllist is the lister that calls a Go function by its name in [discover.Functions].
package calllist

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/shardctl/shardctl/pkg/tasks/decode"
	"github.com/shardctl/shardctl/pkg/tasks/discover"
)

// Name is the field of discover that chooses this lister.
const Name = "callback"

// Kind reads names of functions from a configuration.
type Kind struct{}

// Name is "callback".
func (Kind) Name() string { return Name }

// Schema is text.
func (Kind) Schema() string {
	return `{"description": "Calls a Go function registered under this name.", "$ref": "#/$defs/text"}`
}

// Parse reads a Lister.
func (Kind) Parse(n *decode.Node, r *decode.Reader) discover.Lister { return New(r.Text(n, "")) }

// New is a lister that calls the function of that name.
func New(name string) *Lister { return &Lister{name: name} }

// Lister calls a function at each look. It never has two calls under way.
type Lister struct {
	name  string
	since atomic.Int64 // Unix ns when the call under way began; 0: there is none
}

// Kind is "callback".
func (*Lister) Kind() string { return Name }

// Validate checks that there is a name. Whether a function has it is known at the first look.
func (l *Lister) Validate() []decode.FieldError {
	if l.name == "" {
		return []decode.FieldError{{Message: "is empty, must be a name registered in Go"}}
	}
	return nil
}

// Print is the name.
func (l *Lister) Print() any { return l.name }

// errNotReturned says that a function neither returned nor panicked.
var errNotReturned = errors.New("it called runtime.Goexit")

// List calls the function. One that does not return after ctx has ended is left alone, and not called again until it
// has.
func (l *Lister) List(ctx context.Context, env discover.Env) ([]discover.Found, error) {
	list, ok := env.Functions.Lookup(l.name)
	if !ok {
		return nil, fmt.Errorf("callback %q is not registered: register it with Functions.Register in a program of "+
			"your own", l.name)
	}
	now := time.Now()
	if !l.since.CompareAndSwap(0, now.UnixNano()) {
		began := time.Unix(0, l.since.Load()).UTC().Format(time.RFC3339)
		return nil, fmt.Errorf("callback %q has not returned since %s: it must when its context ends", l.name, began)
	}
	type answer struct {
		found []discover.Found
		err   error
	}
	answered := make(chan answer, 1)
	go func() { // so that neither a panic, nor Goexit, nor a function that hangs ends what looks
		a := answer{err: errNotReturned}
		defer func() {
			if p := recover(); p != nil {
				a = answer{err: fmt.Errorf("panicked: %v", p)}
			}
			l.since.Store(0)
			answered <- a
		}()
		a.found, a.err = list(ctx)
	}()
	select {
	case a := <-answered:
		if a.err != nil {
			return nil, fmt.Errorf("callback %q: %w", l.name, a.err)
		}
		return a.found, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("callback %q: no answer: %w", l.name, context.Cause(ctx))
	}
}
