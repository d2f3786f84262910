package memory

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/internal/engine"
)

// database is what all clients share. A document in it is never changed, only replaced: those who have let go of the
// lock may read it.
type database struct {
	now func() time.Time

	mu       sync.Mutex
	tables   map[store.Kind]*table
	watchers map[*watcher]struct{}
}

// client is one client of a database, and the [engine.Backend] of its store. What the caller is given, and what it
// gives, shares no bytes with the database.
type client struct {
	db     *database
	fault  atomic.Pointer[func(Call) Verdict]
	closed chan struct{}
}

// Traits implements [engine.Backend].
func (*client) Traits() engine.Traits { return engine.Traits{} }

// CAS implements [engine.Backend]. All changes happen at once.
func (c *client) CAS(ctx context.Context, changes []store.Change, _ int) ([]engine.Result, error) {
	results := make([]engine.Result, len(changes)) // of a late request no one sees them
	err := c.call(ctx, Call{Op: OpApply, Changes: changes}, func() {
		c.db.mu.Lock()
		defer c.db.mu.Unlock()
		for i, change := range changes {
			results[i] = c.db.cas(change)
		}
	})
	if err != nil {
		return nil, err
	}
	return results, nil
}

// cas wants the lock.
func (db *database) cas(c store.Change) engine.Result {
	t := db.tables[c.Doc.Kind]
	old := t.docs[c.Doc.ID]
	if _, holds := store.Judge(c, old); !holds {
		return engine.Result{Found: copied(old, false)}
	}
	next := &c.Doc
	switch c.Op {
	case store.Delete:
		next = nil
		t.remove(c.Doc.ID)
	case store.Increment:
		raised := engine.Incremented(c.Doc, old, db.now().UnixMilli())
		next = &raised
		t.put(next)
	case store.Put:
		t.put(next)
	}
	if store.Notable(old, next) {
		db.notify(old, next)
	}
	return engine.Result{Written: true}
}

// Get implements [engine.Backend].
func (c *client) Get(ctx context.Context, kind store.Kind, ids []string) (engine.Page, error) {
	return c.find(ctx, Call{Op: OpRead, Kind: kind, IDs: ids}, func(t *table) (docs []*store.Doc, total int) {
		for _, id := range ids {
			if d := t.docs[id]; d != nil {
				docs = append(docs, d)
			}
		}
		return docs, len(docs)
	})
}

// Scan implements [engine.Backend]. It is never stale.
func (c *client) Scan(ctx context.Context, kind store.Kind, q store.Query) (engine.Page, error) {
	return c.find(ctx, Call{Op: OpList, Kind: kind, Query: q}, func(t *table) ([]*store.Doc, int) { return t.find(q) })
}

func (c *client) find(ctx context.Context, of Call, in func(*table) ([]*store.Doc, int)) (engine.Page, error) {
	var docs []*store.Doc
	var page engine.Page
	err := c.call(ctx, of, func() {
		c.db.mu.Lock()
		defer c.db.mu.Unlock()
		now := c.db.now().UnixMilli()
		page = engine.Page{Now: now, Floor: now}
		var total int
		if docs, total = in(c.db.tables[of.Kind]); of.Query.CountOnly {
			docs, page.Total = nil, int64(total)
		}
	})
	if err != nil {
		return engine.Page{}, err
	}
	for _, d := range docs {
		page.Docs = append(page.Docs, *copied(d, of.Query.NoBody))
	}
	return page, nil
}

// copied makes an empty body nil, as every store returns it.
func copied(d *store.Doc, noBody bool) *store.Doc {
	if d == nil {
		return nil
	}
	c := *d
	c.Body = nil
	if !noBody && len(d.Body) > 0 {
		c.Body = slices.Clone(d.Body)
	}
	return &c
}

// watcher is one tail. The database's lock is held when it is notified.
type watcher struct {
	in   store.Interest
	emit func(engine.Event)
}

// Tail implements [engine.Watcher]. The writers notify it.
func (c *client) Tail(ctx context.Context, in store.Interest, begun func(), emit func(engine.Event)) error {
	w := &watcher{in, emit}
	err := c.call(ctx, Call{Op: OpWatch, Interest: in}, func() {
		c.db.mu.Lock()
		defer c.db.mu.Unlock()
		c.db.watchers[w] = struct{}{}
	})
	defer func() {
		c.db.mu.Lock()
		defer c.db.mu.Unlock()
		delete(c.db.watchers, w)
	}()
	if err != nil {
		return err
	}
	begun()
	<-ctx.Done()
	return ctx.Err()
}

// notify says that old became d; nil is absent. It wants the lock.
func (db *database) notify(old, d *store.Doc) {
	e := engine.Event{Doc: copied(d, false)}
	if d != nil {
		e.About = *d
	} else {
		e.About = store.Doc{Kind: old.Kind, ID: old.ID, Group: old.Group}
	}
	for w := range db.watchers {
		if w.in.Wants(e.About) {
			w.emit(e)
		}
	}
}

// Translate implements [engine.Backend].
func (*client) Translate(doing string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, store.ErrUnavailable), errors.Is(err, store.ErrMalformed), errors.Is(err, store.ErrTooLarge):
		return fmt.Errorf("%s: %w", doing, err)
	}
	return fmt.Errorf("%s: %w: %w", doing, store.ErrUnavailable, err)
}

// Close implements [engine.Backend]. The database lives on for its other clients.
func (c *client) Close(context.Context) error {
	close(c.closed)
	return nil
}
