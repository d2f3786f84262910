// Package quorum keeps documents on three or five independent stores, so that any minority of them may be away.
// Each document is a register that a majority decides by CASPaxos (Rystsov, 2018). The stores may be of any kinds,
// mixed, as long as none of them forgets what it has acknowledged. They know nothing of each other.
//
// docs/protocol.md has the rules, what breaks without each, and the argument. Their decisions are package
// pkg/store/internal/ballot.
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
	"fmt"
	"slices"
	"sync"

	"github.com/google/uuid"

	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/internal/ballot"
	"github.com/shardctl/shardctl/pkg/store/internal/engine"
)

var errClosed = fmt.Errorf("quorum: %w: closed", store.ErrUnavailable)

// Store keeps documents on a majority of its servers. Its methods may be called concurrently.
type Store struct {
	members  *members
	proposer *proposer
	counters *counters
	clock    clock
}

var _ store.Store = (*Store)(nil)

// Open connects to the servers of a quorum that was set up by [Init]. A majority of them is enough. It waits no longer
// than the time-out, or the context.
//
// A process that has opened a quorum takes part in this one only: where it was set up again, its servers do not count.
//
// Errors wrap [store.ErrInvalid], [store.ErrSchema], or [store.ErrUnavailable] (no majority counts, or it was not
// set up: try again).
func Open(ctx context.Context, o Options) (*Store, error) {
	s, err := begin(ctx, o)
	if err != nil {
		return nil, fmt.Errorf("open quorum: %w", err)
	}
	within, release := s.members.life.Bound(ctx)
	defer release()
	if err := s.members.await(within, s.members.majority()); err != nil {
		return nil, join(fmt.Errorf("open quorum: %w", err), s.Close(ctx))
	}
	if !o.Existing {
		life := s.members.life
		life.Go(func() { s.removeRegularly(life.Context()) }) //nolint:contextcheck // it lives as long as the store
	}
	return s, nil
}

// begin makes the store and has its servers looked at, without waiting for any.
func begin(ctx context.Context, o Options) (*Store, error) {
	m, err := newMembers(ctx, o)
	if err != nil {
		return nil, err
	}
	return &Store{
		members: m,
		proposer: &proposer{
			members: m, name: ballot.Proposer(uuid.New()), docLocks: docLocks{all: map[key]*docLock{}, max: maxDocLocks},
		},
		counters: &counters{members: m, all: map[string]*ballot.Counter{}},
	}, nil
}

// Read returns the documents with these ids, linearizably: as a majority has them.
func (s *Store) Read(ctx context.Context, kind store.Kind, ids ...string) (store.Reply, error) {
	if err := store.ValidateKind(kind); err != nil {
		return store.Reply{}, fmt.Errorf("read: %w", err)
	}
	ctx, release := s.members.life.Bound(ctx)
	defer release()
	ids = slices.Compact(slices.Sorted(slices.Values(ids)))
	ids = slices.DeleteFunc(ids, isReserved)
	v := newView(s, kind)
	if err := v.read(ctx, ids); err != nil {
		return store.Reply{}, unavailable("read "+string(kind), err)
	}
	reply := v.reply()
	reply.Docs = v.documents(ids)
	return reply, nil
}

// List returns the documents that match, each as a majority has it. The servers filter first, by what each of them
// holds. What a majority of them lists is read, and filtered again.
func (s *Store) List(ctx context.Context, kind store.Kind, q store.Query) (store.Reply, error) {
	if err := store.ValidateKind(kind); err != nil {
		return store.Reply{}, fmt.Errorf("list: %w", err)
	}
	ctx, release := s.members.life.Bound(ctx)
	defer release()
	v := newView(s, kind)
	docs, err := v.list(ctx, q)
	if err != nil {
		return store.Reply{}, unavailable("list "+string(kind), err)
	}
	reply, found := v.reply(), engine.Select(docs, q)
	reply.Docs, reply.Total = found.Docs, found.Total
	if q.CountOnly {
		reply.Unreadable = nil
	}
	return reply, nil
}

// Apply performs each change on its own: those of one call share the requests to each server.
func (s *Store) Apply(ctx context.Context, changes ...store.Change) ([]store.Outcome, error) {
	if err := validate(changes); err != nil {
		return nil, fmt.Errorf("apply: %w", err)
	}
	ctx, release := s.members.life.Bound(ctx)
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
		if isReserved(c.Doc.ID) {
			return fmt.Errorf("%w: ID %.80q begins with a character that the quorum keeps for itself",
				store.ErrMalformed, c.Doc.ID)
		}
		if n := len(c.Doc.WriterID.Session); n > maxWriter {
			return fmt.Errorf("%w: session of a writer ID of %d bytes, at most %d", store.ErrTooLarge, n, maxWriter)
		}
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
		if err := newView(s, changes[deletes].Doc.Kind).read(ctx, nil); err != nil {
			return store.AllUnknown(len(changes), err)
		}
	}
	outs := make([]store.Outcome, len(changes))
	var items []*item
	var of, counts []int
	for i, c := range changes {
		if c.Op == store.Increment {
			counts = append(counts, i)
			continue
		}
		c.Doc.Body = slices.Clone(c.Doc.Body)
		if c.Op == store.Delete && c.Doc.WriterID == (store.WriterID{}) { // to be known again, as any write
			c.Doc.WriterID = store.WriterID{Session: uuid.UUID(s.proposer.name).String(), Seq: s.members.nonce()}
		}
		items, of = append(items, s.change(c, &outs[i])), append(of, i)
	}
	var counting sync.WaitGroup
	if len(counts) > 0 {
		counting.Go(func() { s.counters.add(ctx, changes, counts, outs) })
	}
	if len(items) > 0 {
		err := s.proposer.decide(ctx, items)
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
	it.judge = func(v ballot.Value, sent bool) (ballot.Value, bool) {
		judged, propose, changes := ballot.Judge(c, v, sent)
		*out = judged
		if changes && propose.Is == ballot.Deleted {
			propose.Doc.Expires = s.clock.now(nil) + tombstoneKept.Milliseconds()
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
	ctx, release := s.members.life.Bound(ctx)
	defer release()
	if err := s.members.await(ctx, len(s.members.all)); err != nil {
		return fmt.Errorf("raise the floor: %w", err)
	}
	for _, at := range s.members.all {
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

// Close ends watches and calls under way, and closes the clients of all servers. Closing twice does nothing.
func (s *Store) Close(ctx context.Context) error {
	if !s.members.life.End() {
		return nil
	}
	var errs []error
	for _, at := range s.members.all {
		if at.client != nil {
			errs = append(errs, at.client.Close(context.WithoutCancel(ctx)))
		}
	}
	return join(errs...)
}

// ReasonMinorityAway is the reason of the problem that some servers do not count.
const ReasonMinorityAway = "StoreMinorityAway"

// Inspect says of each server whether it counts, and what its own store says. See [store.Inspect].
func (s *Store) Inspect(ctx context.Context) (store.Inspection, error) {
	ctx, release := s.members.life.Bound(ctx)
	defer release()
	is := store.Inspection{Server: fmt.Sprintf("quorum of %d servers", len(s.members.all))}
	for _, at := range s.members.all {
		is.Settings = append(is.Settings, at.inspect(ctx)...)
	}
	return is, nil
}

// Problems says which servers do not count now, and what the stores of the others say.
func (s *Store) Problems() []store.Problem {
	var all []store.Problem
	for i, at := range s.members.all {
		client, _, err := at.serving()
		if err != nil {
			all = append(all, store.Problem{Reason: ReasonMinorityAway, Message: fmt.Sprintf(
				"Server %d of the quorum, %s, does not count: %v. At most %d of the %d may be away at once.",
				i+1, at.spec.Name, err, len(s.members.all)-s.members.majority(), len(s.members.all),
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
