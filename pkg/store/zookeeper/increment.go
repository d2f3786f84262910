package zookeeper

import (
	"context"
	"sync"

	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/internal/engine"
)

// increment raises a counter. ZooKeeper cannot count, so it is a change of what was read, again and again until no one
// was faster. Increments of one process take turns.
func (w *writer) increment(ctx context.Context, c store.Change) engine.Result {
	leave, err := w.counters.enter(ctx, c.Doc.ID)
	if err != nil {
		return w.unanswered(ctx, c, err)
	}
	defer leave()
	p := w.place(c.Doc.Kind, c.Doc.ID)
	for attempt := 0; ; attempt++ {
		f, err := w.get(ctx, p.document)
		if err != nil {
			return w.unanswered(ctx, c, err)
		}
		old, malformed := decode(c.Doc.Kind, c.Doc.ID, f)
		known := old
		if malformed != nil {
			known = &store.Doc{Kind: c.Doc.Kind, ID: c.Doc.ID, Rev: store.MaxRev} // unreadable: it begins again
		}
		put := store.Change{Op: store.Put, Doc: engine.Incremented(c.Doc, known, w.clock.floor())}
		if old != nil {
			put.IfRev = old.Rev
		}
		if err = w.raise(ctx, p, put, attempt); err == nil {
			return engine.Result{Written: true, Malformed: malformed}
		}
		if !isAnswer(err) {
			return w.unanswered(ctx, c, err)
		}
	}
}

// raise sends it as usual, or, every other time after others may have been faster, so that edited znodes are fixed.
func (w *writer) raise(ctx context.Context, p place, put store.Change, attempt int) error {
	if attempt < 2*fixAfter || attempt%2 == 0 {
		return w.multi(ctx, w.plan(p, put))
	}
	return w.fix(ctx, p, put)
}

// counters has the increments of one group take turns.
type counters struct {
	mu    sync.Mutex
	turns map[string]*turn
}

type turn struct {
	free  chan struct{} // holds one value while it is no one's turn
	users int
}

// enter waits for one's turn; leave ends it.
func (c *counters) enter(ctx context.Context, id string) (leave func(), err error) {
	c.mu.Lock()
	t := c.turns[id]
	if t == nil {
		t = &turn{free: make(chan struct{}, 1)}
		t.free <- struct{}{}
		c.turns[id] = t
	}
	t.users++
	c.mu.Unlock()
	gone := func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if t.users--; t.users == 0 {
			delete(c.turns, id)
		}
	}
	select {
	case <-t.free:
		return func() { t.free <- struct{}{}; gone() }, nil
	case <-ctx.Done():
		gone()
		return nil, context.Cause(ctx)
	}
}
