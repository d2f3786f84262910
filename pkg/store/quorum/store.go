// Package quorum keeps documents on three or five independent stores, so that any minority of them may be away.
// Each document is a register that a majority decides by CASPaxos (Rystsov, 2018). The stores may be of any kinds,
// mixed, as long as none of them forgets what it has acknowledged. They know nothing of each other.
//
// docs/protocol.md has the rules, what breaks without each, and the argument. Their decisions are package
// pkg/store/internal/quorum.
//
// # How a server keeps its part
//
// An acceptor is a document of the same kind and ID in that server's store, changed by compare-and-set. Its fields are
// those of the accepted document, so that indexes and notifications of the store serve. Promised and accepted ballot,
// and the document's own revision and writer ID, are in the text of its writer ID. A deleted document leaves a
// tombstone.
//
// Beside the documents of each kind a server keeps its identity and its floor. Both are read with the documents: a
// server that has lost its disk answers nothing that counts.
package quorum

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/uuid"

	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/internal/engine"
	"github.com/shardctl/shardctl/pkg/store/internal/quorum"
)

var errClosed = fmt.Errorf("quorum: %w: closed", store.ErrUnavailable)

// Store keeps documents on a majority of its servers. Its methods may be called concurrently.
type Store struct {
	servers  []*server
	name     quorum.Proposer // of this store: no other one ever has it
	docLocks docLocks
	life     *engine.Life
	log      logr.Logger
	timeout  time.Duration // of requests
	serial   atomic.Int64
	found    foundTable

	mu       sync.Mutex
	clock    quorum.Clock
	counters map[string]*quorum.Counter
}

var _ store.Store = (*Store)(nil)

// Open connects to the servers of a quorum that was set up by [Init]. A majority of them is enough. It waits no longer
// than the time-out, or the context.
//
// A process that has opened a quorum takes part in this one only: where it was set up again, its servers do not count.
//
// Errors wrap [store.ErrInvalid], [store.ErrSchema], or [store.ErrUnavailable] (no majority counts, or nobody has set
// it up: try again).
func Open(ctx context.Context, o Options) (*Store, error) {
	s, err := begin(ctx, o)
	if err != nil {
		return nil, fmt.Errorf("open quorum: %w", err)
	}
	within, release := s.life.Bound(ctx)
	defer release()
	if err := s.found.await(within, s.servers, quorum.Majority(len(s.servers))); err != nil {
		return nil, join(fmt.Errorf("open quorum: %w", err), s.Close(ctx))
	}
	if !o.Existing {
		s.life.Go(func() { s.removeRegularly(s.life.Context()) }) //nolint:contextcheck // it lives as long as the store
	}
	return s, nil
}

// begin makes the store and has its servers looked at, without waiting for any.
func begin(ctx context.Context, o Options) (*Store, error) {
	o, err := o.read()
	if err != nil {
		return nil, err
	}
	s := &Store{
		name: quorum.Proposer(uuid.New()), docLocks: docLocks{all: map[key]*docLock{}, max: maxDocLocks}, log: o.Logger,
		life: engine.NewLife(ctx, o.Timeout), timeout: o.Timeout, counters: map[string]*quorum.Counter{},
	}
	s.serial.Store(rand.Int64N(1 << 52)) //nolint:gosec // it tells writes apart
	for i, spec := range o.Servers {
		s.servers = append(s.servers, newServer(i, spec))
	}
	s.found.begin(quorum.Identity{Cluster: o.Cluster, Members: o.members()}, len(s.servers))
	for _, at := range s.servers {
		t := &tender{store: s, server: at}
		s.life.Go(func() { t.run(s.life.Context()) }) //nolint:contextcheck // it lives as long as the store
	}
	return s, nil
}

// nonce is a number by which this store tells its writes apart.
func (s *Store) nonce() int64 { return s.serial.Add(1) }

// Read returns the documents with these ids, linearizably: as a majority has them.
func (s *Store) Read(ctx context.Context, kind store.Kind, ids ...string) (store.Reply, error) {
	if err := store.ValidateKind(kind); err != nil {
		return store.Reply{}, fmt.Errorf("read: %w", err)
	}
	ctx, release := s.life.Bound(ctx)
	defer release()
	ids = slices.Compact(slices.Sorted(slices.Values(ids)))
	ids = slices.DeleteFunc(ids, func(id string) bool { return invalid(id) != nil })
	v := s.view(kind)
	if err := v.read(ctx, ids); err != nil {
		return store.Reply{}, unavailable("read "+string(kind), err)
	}
	reply := v.reply()
	reply.Docs = v.documents(ids)
	return reply, nil
}

// Apply performs each change on its own: those of one call share the requests to each server.
func (s *Store) Apply(ctx context.Context, changes ...store.Change) ([]store.Outcome, error) {
	if err := validate(changes); err != nil {
		return nil, fmt.Errorf("apply: %w", err)
	}
	ctx, release := s.life.Bound(ctx)
	defer release()
	outs := make([]store.Outcome, 0, len(changes))
	for part := range slices.Chunk(changes, store.MaxBatch) {
		outs = append(outs, s.apply(ctx, part)...)
	}
	return outs, nil
}

func validate(changes []store.Change) error {
	if err := store.ValidateChanges(changes); err != nil {
		return err
	}
	for _, c := range changes {
		if err := invalid(c.Doc.ID); err != nil {
			return err
		}
		if n := len(c.Doc.WriterID.Session); n > maxWriter {
			return fmt.Errorf("%w: session of a writer ID of %d bytes, at most %d", store.ErrTooLarge, n, maxWriter)
		}
	}
	return nil
}

// invalid refuses IDs that the quorum keeps for itself.
func invalid(id string) error {
	if len(id) > 0 && id[:1] == reserved {
		return fmt.Errorf("%w: ID %.80q begins with a character that the quorum keeps for itself", store.ErrMalformed,
			id)
	}
	return nil
}

// apply performs up to one batch.
func (s *Store) apply(ctx context.Context, changes []store.Change) []store.Outcome {
	if err := ctx.Err(); err != nil {
		return store.AllUnknown(len(changes), context.Cause(ctx))
	}
	deletes := slices.IndexFunc(changes, func(c store.Change) bool { return c.Op == store.Delete })
	if deletes >= 0 { // a tombstone says until when it stands
		if err := s.view(changes[deletes].Doc.Kind).read(ctx, nil); err != nil {
			return store.AllUnknown(len(changes), err)
		}
	}
	outs := make([]store.Outcome, len(changes))
	var items []*item
	var of []int
	var counts []int
	for i, c := range changes {
		if c.Op == store.Increment {
			counts = append(counts, i)
			continue
		}
		c.Doc.Body = slices.Clone(c.Doc.Body)
		if c.Op == store.Delete && c.Doc.WriterID == (store.WriterID{}) { // to be known again, as any write
			c.Doc.WriterID = store.WriterID{Session: uuid.UUID(s.name).String(), Seq: s.nonce()}
		}
		items, of = append(items, s.change(c, &outs[i])), append(of, i)
	}
	var counting sync.WaitGroup
	if len(counts) > 0 {
		counting.Go(func() { s.count(ctx, changes, counts, outs) })
	}
	if len(items) > 0 {
		err := s.decide(ctx, items)
		for j, it := range items {
			if !it.done {
				outs[of[j]] = store.AllUnknown(1, err)[0]
			}
		}
	}
	counting.Wait()
	return outs
}

// change is a Put or Delete as the rounds take it. Its outcome counts once the item is done.
func (s *Store) change(c store.Change, out *store.Outcome) *item {
	it := &item{key: key{c.Doc.Kind, c.Doc.ID}, change: true}
	it.judge = func(v quorum.Value, sent bool) (quorum.Value, bool) {
		judged, propose, changes := quorum.Judge(c, v, sent)
		*out = judged
		if changes && propose.Is == quorum.Deleted {
			propose.Doc.Expires = s.now(nil) + tombstoneKept.Milliseconds()
		}
		if out.Doc != nil {
			found := *out.Doc
			found.Body = slices.Clone(found.Body)
			out.Doc = &found
		}
		return propose, changes
	}
	return it
}

// RaiseFloor is for [store.RaiseFloor]. It waits until all servers count.
func (s *Store) RaiseFloor(ctx context.Context, floor int64) error {
	ctx, release := s.life.Bound(ctx)
	defer release()
	if err := s.found.await(ctx, s.servers, len(s.servers)); err != nil {
		return fmt.Errorf("raise the floor: %w", err)
	}
	for _, at := range s.servers {
		client, _, err := at.serving()
		if err == nil {
			err = store.RaiseFloor(ctx, client, floor)
		}
		if err != nil {
			return unavailable(fmt.Sprintf("raise the floor of server %d", at.index+1), err)
		}
	}
	return nil
}

// now takes the times of servers and says what time it is.
func (s *Store) now(times []int64) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.clock.Now(times...)
}

// Close ends watches and calls under way, and closes the clients of all servers. Closing twice does nothing.
func (s *Store) Close(ctx context.Context) error {
	if !s.life.End() {
		return nil
	}
	var errs []error
	for _, at := range s.servers {
		if at.client != nil {
			errs = append(errs, at.client.Close(context.WithoutCancel(ctx)))
		}
	}
	return join(errs...)
}

// unavailable says what was tried. What is not about the set-up may succeed when repeated.
func unavailable(what string, err error) error {
	if errors.Is(err, store.ErrUnavailable) || errors.Is(err, store.ErrMalformed) || errors.Is(err, store.ErrInvalid) {
		return fmt.Errorf("%s: %w", what, err)
	}
	return fmt.Errorf("%s: %w: %w", what, store.ErrUnavailable, err)
}

// causes are errors of several servers. Unlike those of [errors.Join] they are in one line, as people read them in
// logs.
type causes []error

// Error implements error.
func (c causes) Error() string {
	texts := make([]string, len(c))
	for i, err := range c {
		texts[i] = err.Error()
	}
	return strings.Join(slices.Compact(texts), "; ")
}

// Unwrap returns all of them.
func (c causes) Unwrap() []error { return c }

// join leaves out what is nil. It is nil where all are.
func join(errs ...error) error {
	all := slices.DeleteFunc(slices.Clone(errs), func(err error) bool { return err == nil })
	if len(all) == 0 {
		return nil
	}
	return causes(all)
}

// ReasonMinorityAway is the reason of the problem that some servers do not count.
const ReasonMinorityAway = "StoreMinorityAway"

// Inspect says of each server whether it counts, and what its own store says. See [store.Inspect].
func (s *Store) Inspect(ctx context.Context) (store.Inspection, error) {
	ctx, release := s.life.Bound(ctx)
	defer release()
	is := store.Inspection{Server: fmt.Sprintf("quorum of %d servers", len(s.servers))}
	for _, at := range s.servers {
		is.Settings = append(is.Settings, at.inspect(ctx)...)
	}
	return is, nil
}

// inspect is what a server says of itself. That it does not count is among the problems.
func (s *server) inspect(ctx context.Context) []store.Setting {
	name := fmt.Sprintf("server %d", s.index+1)
	client, _, err := s.serving()
	var own store.Inspection
	if err == nil {
		own, err = store.Inspect(ctx, client)
	}
	if err != nil {
		return []store.Setting{{Name: name, Value: s.spec.Name + ", does not count", Holds: true}}
	}
	all := []store.Setting{{Name: name, Value: s.spec.Name, Holds: true}}
	if own.Server != "" {
		all[0].Value += ", " + own.Server
	}
	for _, setting := range own.Settings {
		setting.Name = name + " " + setting.Name
		all = append(all, setting)
	}
	return all
}

// Problems says which servers do not count now, and what the stores of the others say.
func (s *Store) Problems() []store.Problem {
	var all []store.Problem
	for i, at := range s.servers {
		client, _, err := at.serving()
		if err != nil {
			all = append(all, store.Problem{Reason: ReasonMinorityAway, Message: fmt.Sprintf(
				"Server %d of the quorum, %s, does not count: %v. At most %d of the %d may be away at once.",
				i+1, at.spec.Name, err, len(s.servers)-quorum.Majority(len(s.servers)), len(s.servers),
			)})
			continue
		}
		for _, p := range store.Problems(client) {
			p.Message = fmt.Sprintf("Server %d of the quorum: %s", i+1, p.Message)
			all = append(all, p)
		}
	}
	return all
}
