package memory

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/internal/dbstore"
)

// database is what all clients share. A document in it is never changed, only replaced: those who have let go of the
// lock may read it.
type database struct {
	now func() time.Time

	mu       sync.Mutex
	tables   map[driver.Kind]*table
	watchers map[*watcher]struct{}
}

// client is one client of a database, and the [dbstore.Backend] of its store. What the caller is given, and what it
// gives, shares no bytes with the database.
type client struct {
	db     *database
	fault  atomic.Pointer[func(Call) Verdict]
	closed chan struct{}
}

// Traits implements [dbstore.Backend].
func (*client) Traits() dbstore.Traits { return dbstore.Traits{} }

// CAS implements [dbstore.Backend]. All changes happen at once.
func (c *client) CAS(ctx context.Context, changes []driver.Change, _ int) ([]dbstore.Result, error) {
	results := make([]dbstore.Result, len(changes)) // of a late request no one sees them
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
func (db *database) cas(c driver.Change) dbstore.Result {
	t := db.tables[c.Doc.Kind]
	old := t.docs[c.Doc.ID]
	if _, holds := driver.Judge(c, old); !holds {
		return dbstore.Result{Found: copied(old, false)}
	}
	next := &c.Doc
	switch c.Op {
	case driver.Delete:
		next = nil
		t.remove(c.Doc.ID)
	case driver.Increment:
		raised := dbstore.Incremented(c.Doc, old, db.now().UnixMilli())
		next = &raised
		t.put(next)
	case driver.Put:
		t.put(next)
	}
	if driver.Notable(old, next) {
		db.notify(old, next)
	}
	return dbstore.Result{Written: true}
}

// Get implements [dbstore.Backend].
func (c *client) Get(ctx context.Context, kind driver.Kind, ids []string) (dbstore.Page, error) {
	return c.find(ctx, Call{Op: OpRead, Kind: kind, IDs: ids}, func(t *table) (docs []*driver.Doc, total int) {
		for _, id := range ids {
			if d := t.docs[id]; d != nil {
				docs = append(docs, d)
			}
		}
		return docs, len(docs)
	})
}

// Scan implements [dbstore.Backend]. It is never stale.
func (c *client) Scan(ctx context.Context, kind driver.Kind, q driver.Query) (dbstore.Page, error) {
	return c.find(ctx, Call{Op: OpList, Kind: kind, Query: q}, func(t *table) ([]*driver.Doc, int) { return t.find(q) })
}

func (c *client) find(ctx context.Context, of Call, in func(*table) ([]*driver.Doc, int)) (dbstore.Page, error) {
	var docs []*driver.Doc
	var page dbstore.Page
	err := c.call(ctx, of, func() {
		c.db.mu.Lock()
		defer c.db.mu.Unlock()
		now := c.db.now().UnixMilli()
		page = dbstore.Page{Now: now, Floor: now}
		var total int
		if docs, total = in(c.db.tables[of.Kind]); of.Query.CountOnly {
			docs, page.Total = nil, int64(total)
		}
	})
	if err != nil {
		return dbstore.Page{}, err
	}
	for _, d := range docs {
		page.Docs = append(page.Docs, *copied(d, of.Query.NoBody))
	}
	return page, nil
}

// copied makes an empty body nil, as every store returns it.
func copied(d *driver.Doc, noBody bool) *driver.Doc {
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
	in   driver.Interest
	emit func(dbstore.Event)
}

// Tail implements [dbstore.Watcher]. The writers notify it.
func (c *client) Tail(ctx context.Context, in driver.Interest, begun func(), emit func(dbstore.Event)) error {
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
func (db *database) notify(old, d *driver.Doc) {
	e := dbstore.Event{Doc: copied(d, false)}
	if d != nil {
		e.About = *d
	} else {
		e.About = driver.Doc{Kind: old.Kind, ID: old.ID, Group: old.Group}
	}
	for w := range db.watchers {
		if w.in.Wants(e.About) {
			w.emit(e)
		}
	}
}

// Translate implements [dbstore.Backend].
func (*client) Translate(doing string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, driver.ErrUnavailable), errors.Is(err, driver.ErrMalformed), errors.Is(err, driver.ErrTooLarge):
		return fmt.Errorf("%s: %w", doing, err)
	}
	return fmt.Errorf("%s: %w: %w", doing, driver.ErrUnavailable, err)
}

// Close implements [dbstore.Backend]. The database lives on for its other clients.
func (c *client) Close(context.Context) error {
	close(c.closed)
	return nil
}
