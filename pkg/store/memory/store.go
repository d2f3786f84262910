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
	"github.com/shardctl/shardctl/pkg/store/internal/adapter"
)

var errClosed = fmt.Errorf("memory: %w: closed", store.ErrUnavailable)

// Store is one client of a database in memory. It implements [store.Store]; its methods may be called concurrently.
type Store struct {
	db     *database
	fault  atomic.Pointer[func(Call) Verdict]
	closed context.Context // ends with Close, and watches end with it
	close  context.CancelFunc
}

// database is what all clients share.
type database struct {
	now func() time.Time

	mu       sync.Mutex
	tables   map[store.Kind]*table
	watchers watchers
}

// Option changes what [New] makes.
type Option func(*database)

// WithClock makes now the store's clock. The default is [time.Now].
func WithClock(now func() time.Time) Option {
	return func(db *database) { db.now = now }
}

// New makes an empty database and returns a client of it.
func New(options ...Option) *Store {
	db := &database{now: time.Now, tables: map[store.Kind]*table{}, watchers: newWatchers()}
	for _, info := range store.Table() {
		db.tables[info.Kind] = newTable(info)
	}
	for _, option := range options {
		option(db)
	}
	return db.client()
}

// Client returns one more client of the same database. Closing it, and the faults it is given, concern it alone; it
// starts without faults.
func (s *Store) Client() *Store { return s.db.client() }

func (db *database) client() *Store {
	closed, stop := context.WithCancel(context.Background())
	return &Store{db: db, closed: closed, close: stop}
}

// Read implements [store.Store]. The documents are in order of id, each once.
func (s *Store) Read(ctx context.Context, kind store.Kind, ids ...string) (store.Reply, error) {
	if err := store.ValidateKind(kind); err != nil {
		return store.Reply{}, err
	}
	ids = slices.Compact(slices.Sorted(slices.Values(ids)))
	var res store.Reply
	err := s.call(ctx, Call{Op: OpRead, Kind: kind, IDs: ids}, func() {
		res = s.db.read(kind, ids)
	})
	if err != nil {
		return store.Reply{}, fmt.Errorf("read %s: %w", kind, err)
	}
	return res, nil
}

// List implements [store.Store]. It is never stale.
func (s *Store) List(ctx context.Context, kind store.Kind, q store.Query) (store.Reply, error) {
	if err := store.ValidateKind(kind); err != nil {
		return store.Reply{}, err
	}
	var res store.Reply
	err := s.call(ctx, Call{Op: OpList, Kind: kind, Query: q}, func() {
		res = s.db.list(kind, q)
	})
	if err != nil {
		return store.Reply{}, fmt.Errorf("list %s: %w", kind, err)
	}
	return res, nil
}

// Apply implements [store.Store].
func (s *Store) Apply(ctx context.Context, changes ...store.Change) ([]store.Outcome, error) {
	if err := store.ValidateChanges(changes); err != nil {
		return nil, err
	}
	// A late request may land after the caller has gone on: it must not see what the caller does with its slices then.
	changes = slices.Clone(changes)
	for i := range changes {
		changes[i].Doc.Body = copyBody(changes[i].Doc.Body)
	}
	var outcomes []store.Outcome
	err := s.call(ctx, Call{Op: OpApply, Changes: changes}, func() {
		outcomes = s.db.apply(changes)
	})
	if err != nil {
		return store.AllUnknown(len(changes), fmt.Errorf("apply %d changes: %w", len(changes), err)), nil
	}
	return outcomes, nil
}

// Close implements [store.Store]. The database lives on for its other clients.
func (s *Store) Close(context.Context) error {
	s.close()
	return nil
}

func (db *database) read(kind store.Kind, ids []string) store.Reply {
	db.mu.Lock()
	defer db.mu.Unlock()
	res := db.reply()
	for _, id := range ids {
		if d := db.tables[kind].docs[id]; d != nil {
			res.Docs = append(res.Docs, copyDoc(d, false))
		}
	}
	return res
}

func (db *database) list(kind store.Kind, q store.Query) store.Reply {
	db.mu.Lock()
	docs, total := db.tables[kind].find(q)
	res := db.reply()
	db.mu.Unlock()
	if q.CountOnly {
		res.Total = int64(total)
		return res
	}
	res.Docs = make([]store.Doc, len(docs))
	for i, d := range docs {
		res.Docs[i] = copyDoc(d, q.NoBody)
	}
	return res
}

func (db *database) apply(changes []store.Change) []store.Outcome {
	db.mu.Lock()
	defer db.mu.Unlock()
	outcomes := make([]store.Outcome, len(changes))
	for i, c := range changes {
		outcomes[i] = db.applyOne(c)
	}
	return outcomes
}

func (db *database) applyOne(c store.Change) store.Outcome {
	t := db.tables[c.Doc.Kind]
	old := t.docs[c.Doc.ID]
	out, write := store.Judge(c, old)
	if out.Doc != nil {
		found := copyDoc(out.Doc, false)
		out.Doc = &found
	}
	if !write {
		return out
	}
	switch c.Op {
	case store.Delete:
		t.remove(c.Doc.ID)
		db.watchers.changed(old, nil)
	case store.Increment:
		raised := adapter.Incremented(c.Doc, old, db.nowMS())
		t.put(&raised)
		db.watchers.changed(old, &raised)
	case store.Put:
		d := c.Doc
		t.put(&d)
		db.watchers.changed(old, &d)
	}
	return out
}

// reply is an empty one.
func (db *database) reply() store.Reply {
	now := db.nowMS()
	return store.Reply{Now: now, Floor: now}
}

// nowMS is the store's clock in Unix milliseconds.
func (db *database) nowMS() int64 { return db.now().UnixMilli() }

func copyDoc(d *store.Doc, noBody bool) store.Doc {
	c := *d
	if noBody {
		c.Body = nil
	} else {
		c.Body = copyBody(d.Body)
	}
	return c
}

// copyBody makes an empty body nil, as every store returns it.
func copyBody(body []byte) []byte {
	if len(body) == 0 {
		return nil
	}
	return slices.Clone(body)
}

// unavailable wraps why a call did not reach the database.
func unavailable(cause error) error {
	if errors.Is(cause, store.ErrUnavailable) {
		return cause
	}
	return fmt.Errorf("%w: %w", store.ErrUnavailable, cause)
}
