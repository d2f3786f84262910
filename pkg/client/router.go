package client

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/shardctl/shardctl/pkg/api"
)

// ErrNoOwner says that a key has no owner that takes requests, or none that is known yet. It may have one soon.
var ErrNoOwner = errors.New("no owner that takes requests is known")

// Router is a table of who owns which key. [Client.Router] makes it, and [Router.Run] keeps it up to date. What it says
// is a hint: an owner that does not hold the key any more answers 421. Its methods may be called from many goroutines.
type Router struct {
	client *Client
	group  string

	mu      sync.Mutex
	owners  map[string]api.KeyOwner
	changed chan struct{} // closed with the next change
}

// routerPace is how long a broken watch rests at first. Requests go to owners of the past meanwhile.
const routerPace = 100 * time.Millisecond

// Router returns a table of the owners of a group, empty until [Router.Run] is called. An empty name means all groups.
func (c *Client) Router(group string) *Router {
	own := *c
	own.pace.first = min(own.pace.first, routerPace)
	return &Router{client: &own, group: group, owners: map[string]api.KeyOwner{}, changed: make(chan struct{})}
}

// Run follows the owners until ctx ends, over as many connections as it takes, the first one included. It returns why,
// as [Client.WatchStatus] does. While no replica answers, the table stays as it was.
func (r *Router) Run(ctx context.Context) error {
	watch := WatchOptions{Filter: Filter{Group: r.group}, Patient: true}
	return r.client.Owners().Watch(ctx, watch, func(change Change[api.KeyOwner]) error {
		r.apply(change)
		return nil
	})
}

// apply takes a change. Another replica may be behind: of two owners of a key the one with the larger token stays.
func (r *Router) apply(change Change[api.KeyOwner]) {
	r.mu.Lock()
	defer r.mu.Unlock()
	known := r.owners
	if change.Kind == Snapshot {
		r.owners = make(map[string]api.KeyOwner, len(change.Items))
	}
	for _, o := range change.Items {
		older := o.FencingToken < known[o.Key].FencingToken
		switch {
		case change.Kind == Delete && !older:
			delete(r.owners, o.Key)
		case change.Kind == Delete:
		case older:
			r.owners[o.Key] = known[o.Key]
		default:
			r.owners[o.Key] = o
		}
	}
	close(r.changed)
	r.changed = make(chan struct{})
}

// Owner is who owns a key, GROUP/NAME, as last heard; false: no owner is known.
func (r *Router) Owner(key string) (api.KeyOwner, bool) {
	o, ok, _ := r.look(key)
	return o, ok
}

func (r *Router) look(key string) (o api.KeyOwner, ok bool, changed <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	o, ok = r.owners[key]
	return o, ok, r.changed
}

// Addresses are where the owners in the table take requests, each once and sorted. Changed is closed with the next
// change of the table, also of one that leaves the addresses as they are.
func (r *Router) Addresses() (addresses []string, changed <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	distinct := map[string]bool{}
	for key := range r.owners {
		if address := r.owners[key].Address; address != "" {
			distinct[address] = true
		}
	}
	return slices.Sorted(maps.Keys(distinct)), r.changed
}

// Await implements [Finder].
func (r *Router) Await(ctx context.Context, key string, refused int64, most time.Duration) (api.KeyOwner, error) {
	over := time.NewTimer(most)
	defer over.Stop()
	for waiting := true; ; {
		o, ok, changed := r.look(key)
		known := ok && o.Address != ""
		switch {
		case known && (o.FencingToken != refused || !waiting):
			return o, nil
		case !waiting:
			return api.KeyOwner{}, fmt.Errorf("client: key %q: %w", key, ErrNoOwner)
		}
		select {
		case <-changed:
		case <-over.C:
			waiting = false
		case <-ctx.Done():
			return api.KeyOwner{}, context.Cause(ctx)
		}
	}
}
