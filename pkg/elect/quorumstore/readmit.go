package quorumstore

import (
	"context"
	"fmt"
	"iter"
	"slices"

	"github.com/shardctl/shardctl/pkg/elect/internal/quorum"
	"github.com/shardctl/shardctl/pkg/elect/store"
)

// Readmit takes a server back that lost its disk: index counts from 0. All documents that the others know are decided
// again by a majority without it, under ballots far above all that were seen, and copied to it. Last it gets its identity.
// It may be repeated. Replicas may run. report, if not nil, is told what was copied.
//
// The server must be empty, but for what an earlier try has left, and for records that promise nothing yet: replicas
// make some before they notice that the disk is lost. Within ctx it waits until the server answers. An error wraps
// [store.ErrInvalid] where the server did not lose its identity, or is not empty.
func (s *Store) Readmit(ctx context.Context, index int, report func(kind store.Kind, documents int)) error {
	if index < 0 || index >= len(s.servers) {
		return fmt.Errorf("re-admit: %w: server %d, want 1 to %d", store.ErrInvalid, index+1, len(s.servers))
	}
	if err := s.found.looked(ctx, index); err != nil {
		return fmt.Errorf("re-admit: server %d: %w", index+1, err)
	}
	if err := quorum.Readmission(s.found.standings(), index); err != nil {
		return fmt.Errorf("re-admit: %w: %w", store.ErrInvalid, err)
	}
	back := s.servers[index]
	back.mu.Lock()
	client := back.client
	back.mu.Unlock()
	r := &readmission{store: s, index: index, client: client, known: map[store.Kind][]string{}}
	if err := r.empty(ctx); err != nil {
		return unavailable("re-admit", err)
	}
	if err := r.survey(ctx); err != nil {
		return unavailable("re-admit", err)
	}
	for _, kind := range store.Kinds() {
		n, err := r.kind(ctx, kind)
		if err != nil {
			return unavailable("re-admit: copy "+string(kind), err)
		}
		if report != nil {
			report(kind, n)
		}
	}
	id := s.want
	id.Index, id.Incarnation, id.Confirmed = index, s.found.incarnation(), true
	if err := restoreIdentity(ctx, client, id, r.highest+quorum.Jump, s.nonce); err != nil {
		return unavailable("re-admit: write the identity", err)
	}
	back.doubt(errLost) // it is looked at again at once
	return nil
}

// readmission is the work of taking one server back.
type readmission struct {
	store   *Store
	index   int
	client  store.Store
	known   map[store.Kind][]string
	highest int64 // counter of the ballots from which documents are decided again
}

// empty refuses a server that holds what no re-admission has written: an old backup, or something else's documents. A
// record without a ballot says nothing. Only such are created where the disk was lost: see [execution.try].
func (r *readmission) empty(ctx context.Context) error {
	for _, kind := range store.Kinds() {
		reply, err := r.client.List(ctx, kind, store.Query{NoBody: true})
		if err != nil {
			return err
		}
		for _, d := range reply.Docs {
			if invalid(d.ID) != nil { // a counter, or an identity that is not whole
				continue
			}
			if one, err := parse(d); err != nil || !one.unused() && one.Accepted.Ballot.Counter < quorum.Jump {
				return fmt.Errorf("%w: server %d, %s, must be empty, and holds %d documents of the kind %s, such as %.80q",
					store.ErrInvalid, r.index+1, r.store.servers[r.index].spec.Name, len(reply.Docs), kind, d.ID)
			}
		}
	}
	return nil
}

// others are the other servers that count, with their clients.
func (r *readmission) others() iter.Seq2[*server, store.Store] {
	return func(yield func(*server, store.Store) bool) {
		for i, at := range r.store.servers {
			client, _, err := at.serving()
			if i != r.index && err == nil && !yield(at, client) {
				return
			}
		}
	}
}

// has is what an earlier try has left on the server, with the revisions by ID.
func (r *readmission) has(ctx context.Context, kind store.Kind, ids []string) (store.Reply, map[string]int64, error) {
	reply, err := r.client.Read(ctx, kind, ids...)
	revs := make(map[string]int64, len(reply.Docs))
	for _, d := range reply.Docs {
		revs[d.ID] = d.Rev
	}
	return reply, revs, err
}

// survey finds all documents that any other server knows, and the highest counter that any has seen.
func (r *readmission) survey(ctx context.Context) error {
	reached := 0
	for at, client := range r.others() {
		reached++
		for _, kind := range store.Kinds() {
			seen, err := at.look(ctx, kind, nil)
			if err != nil {
				return err
			}
			r.highest = max(r.highest, seen.meta.Floor)
			reply, err := client.List(ctx, kind, store.Query{NoBody: true})
			if err != nil {
				return err
			}
			for _, d := range reply.Docs {
				if invalid(d.ID) == nil {
					one, err := parse(d)
					if err != nil {
						return err
					}
					r.highest = max(r.highest, one.RefusedBelow())
				}
				if d.ID != metaID {
					r.known[kind] = append(r.known[kind], d.ID)
				}
			}
		}
	}
	if need := quorum.Majority(len(r.store.servers)); reached < need {
		return fmt.Errorf("%w: %d of the other servers count, want %d", store.ErrUnavailable, reached, need)
	}
	r.highest += quorum.Jump
	return nil
}

// kind decides all documents of a kind again and copies them.
func (r *readmission) kind(ctx context.Context, kind store.Kind) (int, error) {
	ids := slices.Compact(slices.Sorted(slices.Values(r.known[kind])))
	var counters []string
	ids = slices.DeleteFunc(ids, func(id string) bool {
		if invalid(id) != nil {
			counters = append(counters, id)
		}
		return invalid(id) != nil
	})
	for part := range slices.Chunk(ids, store.MaxBatch) {
		if err := r.decide(ctx, kind, part); err != nil {
			return 0, err
		}
	}
	return len(ids), r.count(ctx, counters)
}

// decide has documents decided again, and copies them. The revisions of their records are above all that the lost disk
// can have had: a replica that still remembers one would overwrite a record that it has never seen.
func (r *readmission) decide(ctx context.Context, kind store.Kind, ids []string) error {
	items := make([]*item, len(ids))
	for i, id := range ids {
		items[i] = &item{key: key{kind, id}, above: r.highest, judge: func(v quorum.Value, _ bool) (quorum.Value, bool) {
			return v, false
		}}
	}
	own, release := r.store.life.Bound(ctx)
	defer release()
	if err := r.store.decide(own, items); err != nil {
		return err
	}
	has, revs, err := r.has(own, kind, ids)
	if err != nil {
		return err
	}
	changes := make([]store.Change, len(items))
	for i, it := range items {
		one := record{rev: revs[it.id], acceptor: acceptor{
			Promised: it.round.Ballot,
			Accepted: quorum.Accepted[quorum.Value]{Ballot: it.round.Ballot, Value: it.round.Value},
		}}
		above := max(has.Floor, one.Accepted.Value.Doc.Rev) + counterJump
		changes[i] = store.Change{IfRev: one.rev, Doc: one.document(it.key, above, r.store.nonce())}
	}
	return written(r.client.Apply(own, changes...))
}

// counterJump covers increments that were never acknowledged, and changes of records by promises alone.
const counterJump = 1 << 20

// count gives the server counters above all that it may have counted: readers remember them. Each increment that was
// acknowledged is with half of the others at least. So one of them has counted half as much as the lost one had.
func (r *readmission) count(ctx context.Context, ids []string) error {
	if len(ids) == 0 {
		return nil
	}
	most := map[string]store.Doc{}
	for _, client := range r.others() {
		reply, err := client.Read(ctx, store.KindGroup, ids...)
		if err != nil {
			return err
		}
		for _, d := range reply.Docs {
			m := most[d.ID]
			m.Kind, m.ID, m.Count, m.Rev = d.Kind, d.ID, max(m.Count, d.Count), max(m.Rev, d.Rev)
			most[d.ID] = m
		}
	}
	_, revs, err := r.has(ctx, store.KindGroup, ids)
	if err != nil {
		return err
	}
	var changes []store.Change
	for id, d := range most {
		d.Count = 2*d.Count + counterJump
		d.Rev = max(d.Rev, revs[id]+1)
		d.WriterID = store.WriterID{Session: "quorum", Seq: r.store.nonce()}
		changes = append(changes, store.Change{IfRev: revs[id], Doc: d})
	}
	return written(r.client.Apply(ctx, changes...))
}

// written is nil where all changes were applied.
func written(outs []store.Outcome, err error) error {
	for _, out := range outs {
		if out.Status != store.Applied {
			err = join(err, out.Err, errNotCopied)
		}
	}
	return err
}

var errNotCopied = fmt.Errorf("%w: the server that is re-admitted did not take a document: try again", store.ErrUnavailable)
