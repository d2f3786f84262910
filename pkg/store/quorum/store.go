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
	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/internal/ballot"
	"github.com/shardctl/shardctl/pkg/store/internal/dbstore"
)

var errClosed = fmt.Errorf("quorum: %w: closed", driver.ErrUnavailable)

// Store keeps documents on a majority of its servers. Its methods may be called concurrently.
type Store struct {
	members  *members
	proposer *proposer
	counters *counters
	clock    serverClock
}

var _ driver.Store = (*Store)(nil)

// Open connects to the servers of a quorum that was set up by [Init]. A majority of them is enough. It waits no longer
// than the time-out, or the context.
//
// A process that has opened a quorum takes part in this one only: where it was set up again, its servers do not count.
//
// Errors wrap [driver.ErrInvalid], [driver.ErrSchema], or [driver.ErrUnavailable] (no majority counts, or it was not
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
func (s *Store) Read(ctx context.Context, kind driver.Kind, ids ...string) (driver.Reply, error) {
	if err := driver.ValidateKind(kind); err != nil {
		return driver.Reply{}, fmt.Errorf("read: %w", err)
	}
	ctx, release := s.members.life.Bound(ctx)
	defer release()
	ids = slices.Compact(slices.Sorted(slices.Values(ids)))
	ids = slices.DeleteFunc(ids, isReserved)
	v := newView(s, kind)
	if err := v.read(ctx, ids); err != nil {
		return driver.Reply{}, unavailable("read "+string(kind), err)
	}
	reply := v.reply()
	reply.Docs = v.documents(ids)
	return reply, nil
}

// List returns the documents that match, each as a majority has it. The servers filter first, by what each of them
// holds. What a majority of them lists is read, and filtered again.
func (s *Store) List(ctx context.Context, kind driver.Kind, q driver.Query) (driver.Reply, error) {
	if err := driver.ValidateKind(kind); err != nil {
		return driver.Reply{}, fmt.Errorf("list: %w", err)
	}
	ctx, release := s.members.life.Bound(ctx)
	defer release()
	v := newView(s, kind)
	docs, err := v.list(ctx, q)
	if err != nil {
		return driver.Reply{}, unavailable("list "+string(kind), err)
	}
	reply, found := v.reply(), dbstore.Select(docs, q)
	reply.Docs, reply.Total = found.Docs, found.Total
	if q.CountOnly {
		reply.Unreadable = nil
	}
	return reply, nil
}

// Apply performs each change on its own: those of one call share the requests to each server.
func (s *Store) Apply(ctx context.Context, changes ...driver.Change) ([]driver.Outcome, error) {
	if err := validate(changes); err != nil {
		return nil, fmt.Errorf("apply: %w", err)
	}
	ctx, release := s.members.life.Bound(ctx)
	defer release()
	outs := make([]driver.Outcome, 0, len(changes))
	for part := range slices.Chunk(changes, driver.MaxBatch) {
		outs = append(outs, s.apply(ctx, part)...)
	}
	return outs, nil
}

func validate(changes []driver.Change) error {
	if err := driver.ValidateChanges(changes); err != nil {
		return err
	}
	for _, c := range changes {
		if isReserved(c.Doc.ID) {
			return fmt.Errorf("%w: ID %.80q begins with a character that the quorum keeps for itself",
				driver.ErrMalformed, c.Doc.ID)
		}
		if n := len(c.Doc.WriterID.Session); n > maxWriter {
			return fmt.Errorf("%w: session of a writer ID of %d bytes, at most %d", driver.ErrTooLarge, n, maxWriter)
		}
	}
	return nil
}

// apply performs up to one batch.
func (s *Store) apply(ctx context.Context, changes []driver.Change) []driver.Outcome {
	if err := ctx.Err(); err != nil {
		return driver.AllUnknown(len(changes), context.Cause(ctx))
	}
	deletes := slices.IndexFunc(changes, func(c driver.Change) bool { return c.Op == driver.Delete })
	if deletes >= 0 { // a tombstone says until when it stands
		if err := newView(s, changes[deletes].Doc.Kind).read(ctx, nil); err != nil {
			return driver.AllUnknown(len(changes), err)
		}
	}
	outs := make([]driver.Outcome, len(changes))
	var items []*item
	var of, counts []int
	for i, c := range changes {
		if c.Op == driver.Increment {
			counts = append(counts, i)
			continue
		}
		c.Doc.Body = slices.Clone(c.Doc.Body)
		if c.Op == driver.Delete && c.Doc.WriterID == (driver.WriterID{}) { // to be known again, as any write
			c.Doc.WriterID = driver.WriterID{Session: uuid.UUID(s.proposer.name).String(), Seq: s.members.nonce()}
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
				outs[of[j]] = driver.AllUnknown(1, err)[0]
			}
		}
	}
	counting.Wait()
	return outs
}

// change is a Put or Delete as the rounds take it. Its outcome counts once the item is done.
func (s *Store) change(c driver.Change, out *driver.Outcome) *item {
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

// RaiseFloor is for [driver.RaiseFloor]. It waits until all servers count.
func (s *Store) RaiseFloor(ctx context.Context, floor int64) error {
	ctx, release := s.members.life.Bound(ctx)
	defer release()
	if err := s.members.await(ctx, len(s.members.all)); err != nil {
		return fmt.Errorf("raise the floor: %w", err)
	}
	for _, at := range s.members.all {
		client, _, err := at.serving()
		if err == nil {
			err = driver.RaiseFloor(ctx, client, floor)
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
func (s *Store) Inspect(ctx context.Context) (driver.Inspection, error) {
	ctx, release := s.members.life.Bound(ctx)
	defer release()
	is := driver.Inspection{Server: fmt.Sprintf("quorum of %d servers", len(s.members.all))}
	for _, at := range s.members.all {
		is.Settings = append(is.Settings, at.inspect(ctx)...)
	}
	return is, nil
}

// Problems says which servers do not count now, and what the stores of the others say.
func (s *Store) Problems() []driver.Problem {
	var all []driver.Problem
	for i, at := range s.members.all {
		client, _, err := at.serving()
		if err != nil {
			all = append(all, driver.Problem{Reason: ReasonMinorityAway, Message: fmt.Sprintf(
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
