package dbstore

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"

	"github.com/shardctl/shardctl/pkg/store/driver"
)

// Store is one client of a database. It implements [driver.Store]; its methods may be called concurrently.
type Store struct {
	backend Backend
	traits  Traits
	life    *Life
	found   *Unreadable
	tails   tails
	failed  chan struct{} // wakes what looks at the database, when a call has failed
	waits   waits
	closing struct {
		once sync.Once
		done chan struct{}
		err  error
	}
}

var _ driver.Store = (*Store)(nil)

// New makes a store of a backend, which is the store's from then on. It logs documents that cannot be read, each once,
// and watches that break.
func New(ctx context.Context, b Backend, log logr.Logger) *Store {
	s := &Store{backend: b, traits: b.Traits(), found: NewUnreadable(log)}
	s.life = NewLife(ctx, s.traits.Timeout)
	s.tails.log, s.tails.joining = log, make(chan struct{}, 1)
	s.closing.done = make(chan struct{})
	s.failed, s.waits.pace.Every = make(chan struct{}, 1), waitsEvery
	return s
}

// Backend is what the store is made of, for those who know more of it.
func (s *Store) Backend() Backend { return s.backend }

// Read implements [driver.Store].
func (s *Store) Read(ctx context.Context, kind driver.Kind, ids ...string) (driver.Reply, error) {
	if err := driver.ValidateKind(kind); err != nil {
		return driver.Reply{}, err
	}
	ids = slices.Compact(slices.Sorted(slices.Values(ids)))
	return call(ctx, s, "read "+string(kind), func(ctx context.Context) (driver.Reply, error) {
		page, err := s.backend.Get(ctx, kind, ids)
		return s.reply(page), err
	})
}

// List implements [driver.Store]. Where rows of a page are no documents another one fills it: a short page would say
// that nothing follows.
func (s *Store) List(ctx context.Context, kind driver.Kind, q driver.Query) (driver.Reply, error) {
	if err := driver.ValidateKind(kind); err != nil {
		return driver.Reply{}, err
	}
	return call(ctx, s, "list "+string(kind), func(ctx context.Context) (driver.Reply, error) {
		var docs []driver.Doc
		var unreadable []driver.Unreadable
		for left := q; ; {
			page, err := s.backend.Scan(ctx, kind, left)
			last := ""
			if page.More {
				last = page.last(q.Reverse)
			}
			reply := s.reply(page)
			if docs != nil || unreadable != nil { // most lists are one page
				reply.Docs, reply.Unreadable = append(docs, reply.Docs...), append(unreadable, reply.Unreadable...)
			}
			docs, unreadable = reply.Docs, reply.Unreadable
			if err != nil || !page.More || len(docs) >= q.Limit || q.Reverse && last == "" {
				return reply, err
			}
			left.Limit = q.Limit - len(docs)
			left = left.After(last)
		}
	})
}

// last is the id of the last row in the order of a query.
func (p Page) last(reverse bool) (last string) {
	first := true
	see := func(id string) {
		if first || (id < last) == reverse {
			last = id
		}
		first = false
	}
	for _, d := range p.Docs {
		see(d.ID)
	}
	for _, u := range p.Unreadable {
		see(u.ID)
	}
	return last
}

// reply sorts out what cannot be read. Docs of the page are the reply's from then on.
func (s *Store) reply(p Page) driver.Reply {
	r := driver.Reply{Total: p.Total, Now: p.Now, Wall: cmp.Or(p.Wall, p.Now), Floor: p.Floor, Lineage: p.Lineage}
	for _, u := range p.Unreadable {
		r.Unreadable = append(r.Unreadable, s.found.Report(u.Kind, u.ID, u.Err))
	}
	r.Docs = slices.DeleteFunc(p.Docs, func(d driver.Doc) bool {
		err := driver.CheckFound(d)
		if err != nil {
			r.Unreadable = append(r.Unreadable, s.found.Report(d.Kind, d.ID, err))
		}
		return err != nil
	})
	return r
}

// Watch implements [driver.Store].
func (s *Store) Watch(ctx context.Context, in driver.Interest) (<-chan driver.Notification, error) {
	if err := in.Validate(); err != nil {
		return nil, s.backend.Translate("watch", err)
	}
	n, err := s.watch(ctx, in)
	if err != nil {
		return nil, s.backend.Translate("watch", err)
	}
	return n, nil
}

// Problems are those of the backend. See [store.Problems].
func (s *Store) Problems() []driver.Problem {
	if b, ok := s.backend.(driver.ProblemReporter); ok {
		return b.Problems()
	}
	return nil
}

// Inspect asks the backend. See [store.Inspect].
func (s *Store) Inspect(ctx context.Context) (driver.Inspection, error) {
	b, ok := s.backend.(driver.Inspector)
	if !ok {
		return driver.Inspection{}, nil
	}
	return call(ctx, s, "inspect", b.Inspect)
}

// RaiseFloor has the backend raise a floor that is a counter of its own. See [driver.RaiseFloor].
func (s *Store) RaiseFloor(ctx context.Context, floor int64) error {
	b, ok := s.backend.(driver.FloorRaiser)
	if !ok {
		return nil
	}
	_, err := call(ctx, s, "raise the floor", func(ctx context.Context) (struct{}, error) {
		return struct{}{}, b.RaiseFloor(ctx, floor)
	})
	return err
}

// Close implements [driver.Store]. It ends calls and watches under way, and waits for them no longer than ctx. Closing
// twice does nothing.
func (s *Store) Close(ctx context.Context) error {
	s.closing.once.Do(func() {
		go func() {
			defer close(s.closing.done)
			s.life.End()
			s.closing.err = s.backend.Translate("close", s.backend.Close(ctx))
		}()
	})
	select {
	case <-s.closing.done:
		return s.closing.err
	case <-ctx.Done():
		return s.backend.Translate("close", ctx.Err())
	}
}

// Do is a call of a backend's own, such as its set-up, under the life of the store.
func (s *Store) Do(ctx context.Context, doing string, f func(context.Context) error) error {
	_, err := call(ctx, s, doing, func(ctx context.Context) (struct{}, error) { return struct{}{}, f(ctx) })
	return err
}

// call runs f with a deadline, until the store ends.
func call[T any](ctx context.Context, s *Store, doing string, f func(context.Context) (T, error)) (T, error) {
	run := bounded[T]
	if s.traits.Detached {
		run = detached[T]
	}
	stop := s.askWhenSlow(ctx)
	value, err := run(ctx, s.life, f)
	stop()
	s.fail(err)
	return value, s.waits.explain(s.backend.Translate(doing, err))
}

func bounded[T any](ctx context.Context, l *Life, f func(context.Context) (T, error)) (T, error) {
	ctx, release := l.Bound(ctx)
	defer release()
	return f(ctx)
}

// sayWhy is how long a detached call whose context has ended has to say what it waited for.
const sayWhy = 10 * time.Millisecond

// detached waits for f hardly longer than ctx. f goes on until it notices; what it writes then is a write of unknown
// outcome.
func detached[T any](ctx context.Context, l *Life, f func(context.Context) (T, error)) (none T, err error) {
	if err := ctx.Err(); err != nil {
		return none, err
	}
	type reply struct {
		value T
		err   error
	}
	replies := make(chan reply, 1)
	ctx, release := l.Bound(ctx)
	if !l.Go(func() {
		defer release()
		value, err := f(ctx)
		replies <- reply{value, err}
	}) {
		release()
		return none, ErrClosed
	}
	select {
	case r := <-replies:
		return r.value, r.err
	case <-ctx.Done():
	}
	moment := time.NewTimer(sayWhy)
	defer moment.Stop()
	select {
	case r := <-replies: // its release has ended the context, or it says what it waited for
		return r.value, r.err
	case <-moment.C:
		return none, context.Cause(ctx)
	}
}

// maxLogged bounds the memory of what was logged.
const maxLogged = 1000

// Unreadable looks at documents as they come out of a database, where anybody may have edited them. Each that is none
// is logged once. Its methods may be called concurrently.
type Unreadable struct {
	log    logr.Logger
	mu     sync.Mutex
	logged map[string]struct{}
}

// NewUnreadable logs to log.
func NewUnreadable(log logr.Logger) *Unreadable {
	return &Unreadable{log: log, logged: map[string]struct{}{}}
}

// Report logs that a document cannot be read, and why, unless that was logged before. It returns what replies say.
func (u *Unreadable) Report(kind driver.Kind, id string, why error) driver.Unreadable {
	document := string(kind) + " " + id
	u.mu.Lock()
	_, before := u.logged[document]
	if !before && len(u.logged) < maxLogged {
		u.logged[document] = struct{}{}
	}
	u.mu.Unlock()
	if !before {
		u.log.Error(why, "A document in the store is unreadable", "document", document)
	}
	return driver.Unreadable{Kind: kind, ID: id, Err: why}
}
