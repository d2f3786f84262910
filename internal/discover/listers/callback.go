package listers

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/shardctl/shardctl/internal/decode"
	"github.com/shardctl/shardctl/internal/discover"
)

// CallbackKind reads names of functions from a configuration.
var CallbackKind = decode.Kind[discover.Lister]{
	Field: "callback",
	Form: func() string {
		return `{"description": "Calls a Go function registered under this name.", "$ref": "#/$defs/text"}`
	},
	Read: func(n *decode.Node, r *decode.Reader) discover.Lister {
		return NewCallback(r.Text(n, ""))
	},
}

// NewCallback is a lister that calls the function of that name.
func NewCallback(name string) *Callback { return &Callback{name: name} }

// Callback calls a function at each look. It never has two calls under way.
type Callback struct {
	name  string
	since atomic.Int64 // Unix ns when the call under way began; 0: there is none
}

// Kind is "callback".
func (*Callback) Kind() string { return "callback" }

// Validate checks that there is a name. Whether a function has it is known at the first look.
func (l *Callback) Validate() []decode.FieldError {
	if l.name == "" {
		return []decode.FieldError{{Message: "is empty, must be a name registered in Go"}}
	}
	return nil
}

// Print is the name.
func (l *Callback) Print() any { return l.name }

// errNotReturned says that a function neither returned nor panicked.
var errNotReturned = errors.New("it called runtime.Goexit")

// List calls the function. One that does not return after ctx has ended is left alone, and not called again until it
// has.
func (l *Callback) List(ctx context.Context, env discover.Env) ([]discover.Found, error) {
	list, ok := env.Functions[l.name]
	if !ok {
		return nil, fmt.Errorf("callback %q is not registered: give it to shardctl.Main, of pkg/shardctl, in a "+
			"program of your own", l.name)
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
