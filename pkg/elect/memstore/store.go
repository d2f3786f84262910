package memstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/shardctl/shardctl/pkg/elect"
)

var errClosed = fmt.Errorf("memory: %w: closed", elect.ErrUnavailable)

// Store is one client of a database in memory. It implements [elect.Store]; its methods may be called concurrently.
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
	tables   map[elect.Kind]*table
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
	db := &database{now: time.Now, tables: map[elect.Kind]*table{}, watchers: newWatchers()}
	for _, kind := range elect.Kinds() {
		db.tables[kind] = newTable(kind)
	}
	for _, option := range options {
		option(db)
	}
	return db.client()
}

// Client returns one more client of the same database. Closing it, and the faults it is given, concern it alone; it starts
// without faults.
func (s *Store) Client() *Store { return s.db.client() }

func (db *database) client() *Store {
	closed, stop := context.WithCancel(context.Background())
	return &Store{db: db, closed: closed, close: stop}
}

// Read implements [elect.Store]. The documents are in order of id, each once.
func (s *Store) Read(ctx context.Context, kind elect.Kind, ids ...string) (elect.Result, error) {
	if err := elect.ValidateKind(kind); err != nil {
		return elect.Result{}, err
	}
	ids = slices.Compact(slices.Sorted(slices.Values(ids)))
	var res elect.Result
	err := s.call(ctx, Call{Op: OpRead, Kind: kind, IDs: ids}, func() {
		res = s.db.read(kind, ids)
	})
	if err != nil {
		return elect.Result{}, fmt.Errorf("read %s: %w", kind, err)
	}
	return res, nil
}

// List implements [elect.Store]. It is never stale.
func (s *Store) List(ctx context.Context, kind elect.Kind, q elect.Query) (elect.Result, error) {
	if err := elect.ValidateKind(kind); err != nil {
		return elect.Result{}, err
	}
	var res elect.Result
	err := s.call(ctx, Call{Op: OpList, Kind: kind, Query: q}, func() {
		res = s.db.list(kind, q)
	})
	if err != nil {
		return elect.Result{}, fmt.Errorf("list %s: %w", kind, err)
	}
	return res, nil
}

// Apply implements [elect.Store].
func (s *Store) Apply(ctx context.Context, changes ...elect.Change) ([]elect.Outcome, error) {
	if err := elect.ValidateChanges(changes); err != nil {
		return nil, err
	}
	// A late request may land after the caller has gone on: it must not see what the caller does with its slices then.
	changes = slices.Clone(changes)
	for i := range changes {
		changes[i].Doc.Body = copyBody(changes[i].Doc.Body)
	}
	var outcomes []elect.Outcome
	err := s.call(ctx, Call{Op: OpApply, Changes: changes}, func() {
		outcomes = s.db.apply(changes)
	})
	if err != nil {
		return elect.AllUnknown(len(changes), fmt.Errorf("apply %d changes: %w", len(changes), err)), nil
	}
	return outcomes, nil
}

// Close implements [elect.Store]. The database lives on for its other clients.
func (s *Store) Close(context.Context) error {
	s.close()
	return nil
}

func (db *database) read(kind elect.Kind, ids []string) elect.Result {
	db.mu.Lock()
	defer db.mu.Unlock()
	res := elect.Result{Now: db.nowMS()}
	for _, id := range ids {
		if d := db.tables[kind].docs[id]; d != nil {
			res.Docs = append(res.Docs, copyDoc(d, false))
		}
	}
	return res
}

func (db *database) list(kind elect.Kind, q elect.Query) elect.Result {
	db.mu.Lock()
	docs, total := db.tables[kind].find(q)
	res := elect.Result{Now: db.nowMS()}
	db.mu.Unlock()
	if q.CountOnly {
		res.Total = int64(total)
		return res
	}
	res.Docs = make([]elect.Doc, len(docs))
	for i, d := range docs {
		res.Docs[i] = copyDoc(d, q.NoBody)
	}
	return res
}

func (db *database) apply(changes []elect.Change) []elect.Outcome {
	db.mu.Lock()
	defer db.mu.Unlock()
	outcomes := make([]elect.Outcome, len(changes))
	for i, c := range changes {
		outcomes[i] = db.applyOne(c)
	}
	return outcomes
}

func (db *database) applyOne(c elect.Change) elect.Outcome {
	t := db.tables[c.Doc.Kind]
	old := t.docs[c.Doc.ID]
	out, write := elect.Judge(c, old)
	if out.Doc != nil {
		found := copyDoc(out.Doc, false)
		out.Doc = &found
	}
	if !write {
		return out
	}
	switch c.Op {
	case elect.Delete:
		t.remove(c.Doc.ID)
		db.watchers.changed(old, nil)
	case elect.Bump:
		bumped := elect.Doc{Kind: c.Doc.Kind, ID: c.Doc.ID}
		if old != nil {
			bumped = *old
		}
		bumped.Rev, bumped.Count, bumped.Stamp = bumped.Rev+1, bumped.Count+1, elect.Stamp{}
		t.put(&bumped)
		db.watchers.changed(old, &bumped)
	case elect.Put:
		d := c.Doc
		t.put(&d)
		db.watchers.changed(old, &d)
	}
	return out
}

// nowMS is the store's clock in Unix milliseconds.
func (db *database) nowMS() int64 { return db.now().UnixMilli() }

func copyDoc(d *elect.Doc, noBody bool) elect.Doc {
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
	if errors.Is(cause, elect.ErrUnavailable) {
		return cause
	}
	return fmt.Errorf("%w: %w", elect.ErrUnavailable, cause)
}
