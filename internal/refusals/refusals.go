// Package refusals remembers which calls of a store fail while they are repeated. The protocol takes a failed call for
// a lost answer and repeats it, and so says nothing; a database that refuses the writes of one table for good would be
// noticed by nobody.
package refusals

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/driver"
)

// Store is a [store.Store] that passes all calls on, and remembers those that fail. Its methods may be called
// concurrently.
type Store struct {
	store.Store
	after time.Duration
	tell  func(Refusal)

	mu       sync.Mutex
	failing  map[call]*Refusal
	answered time.Time // the last call that did not fail
	told     bool      // of a refusal that lasts, and not all calls were answered since
}

// call is what is refused or answered: the reads or the writes of one kind of document.
type call struct {
	kind  driver.Kind
	write bool
}

// Refusal is the reads or the writes of one kind of document, all of which have failed since a moment.
type Refusal struct {
	Kind  driver.Kind
	Write bool // false: reads and lists
	Since time.Time
	Err   error // of the last one
}

// Doing names what is refused, such as "writes of sessions".
func (r Refusal) Doing() string {
	doing := "reads"
	if r.Write {
		doing = "writes"
	}
	return doing + " of " + r.Kind.Info().Plural
}

// New watches the calls of a store. A refusal lasts once its calls have failed for the time after; half of a lease is
// longer than a database fails over. tell is called with the first one that lasts, and again with the next one after
// all calls were answered; nil: nobody is told. It must not block, nor call the store.
func New(db store.Store, after time.Duration, tell func(Refusal)) *Store {
	return &Store{Store: db, after: after, tell: tell, failing: map[call]*Refusal{}}
}

// Unwrap implements [driver.Unwrapper].
func (s *Store) Unwrap() store.Store { return s.Store }

// Lasting is a sentence about what lasts: which calls are refused, since when, and what the store has said last. Empty:
// nothing is, or the store has answered no call for as long: it is away.
func (s *Store) Lasting() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var doing []string
	var first Refusal
	for _, write := range []bool{true, false} {
		for _, kind := range driver.Kinds() {
			r := s.failing[call{kind, write}]
			if r == nil || time.Since(r.Since) < s.after {
				continue
			}
			if doing = append(doing, r.Doing()); len(doing) == 1 || r.Since.Before(first.Since) {
				first = *r
			}
		}
	}
	if len(doing) == 0 || time.Since(s.answered) >= s.after {
		return ""
	}
	since := first.Since.UTC().Format(time.RFC3339)
	return fmt.Sprintf("%s fail since %s: %v", strings.Join(doing, ", "), since, first.Err)
}

// Read implements [store.Store].
func (s *Store) Read(ctx context.Context, kind driver.Kind, ids ...string) (driver.Reply, error) {
	reply, err := s.Store.Read(ctx, kind, ids...)
	s.note(call{kind, false}, err)
	return reply, err
}

// List implements [store.Store].
func (s *Store) List(ctx context.Context, kind driver.Kind, q driver.Query) (driver.Reply, error) {
	reply, err := s.Store.List(ctx, kind, q)
	s.note(call{kind, false}, err)
	return reply, err
}

// Apply implements [store.Store]. One outcome that is known is an answer to all changes of its kind.
func (s *Store) Apply(ctx context.Context, changes ...driver.Change) ([]driver.Outcome, error) {
	outs, err := s.Store.Apply(ctx, changes...)
	if err != nil {
		return outs, err // nothing was sent
	}
	last := map[driver.Kind]error{}
	for i, out := range outs {
		kind := changes[i].Doc.Kind
		if why, other := last[kind]; other && why == nil {
			continue
		}
		last[kind] = nil
		if out.Status == driver.Unknown {
			last[kind] = cmp.Or(out.Err, store.ErrUnavailable)
		}
	}
	for kind, why := range last {
		s.note(call{kind, true}, why)
	}
	return outs, nil
}

// ignored are errors that say nothing about a call: the caller has left or asks for what no store does, or the store
// pauses.
var ignored = []error{context.Canceled, driver.ErrMalformed, driver.ErrTooLarge, store.ErrPaused}

// note takes the end of a call.
func (s *Store) note(c call, err error) {
	if err != nil && slices.ContainsFunc(ignored, func(known error) bool { return errors.Is(err, known) }) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil {
		s.answered = time.Now()
		delete(s.failing, c)
		s.told = s.told && len(s.failing) > 0
		return
	}
	r := s.failing[c]
	if r == nil {
		r = &Refusal{Kind: c.kind, Write: c.write, Since: time.Now()}
		s.failing[c] = r
	}
	if r.Err = err; !s.told && s.tell != nil && time.Since(r.Since) >= s.after {
		s.told = true
		s.tell(*r)
	}
}
