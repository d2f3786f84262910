package quorum

import (
	"context"
	"fmt"
	"iter"
	"slices"

	"github.com/google/uuid"

	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/internal/ballot"
)

// Init sets a quorum up: each server is given its identity. All of them must answer, within ctx, and be empty. made is
// false where it was set up before. It may be repeated, also at the same time: one of them sets it up, and another one
// may end with an error that wraps [driver.ErrUnavailable].
//
// An error wraps [driver.ErrInvalid] where a server is not empty, belongs to another quorum, or lost its disk.
func Init(ctx context.Context, o Options) (made bool, err error) {
	s, err := begin(ctx, o)
	if err != nil {
		return false, fmt.Errorf("set up: %w", err)
	}
	defer func() { err = join(err, s.Close(ctx)) }()
	for i := range s.members.all {
		if err := s.members.found.looked(ctx, i); err != nil {
			return false, unavailable("set up", fmt.Errorf("server %d: %w", i+1, err))
		}
	}
	want, _ := s.members.found.identities()
	found, err := s.members.identities(ctx)
	if err != nil {
		return false, unavailable("set up", err)
	}
	fresh, open, err := ballot.SetUp(want, found)
	if err != nil { // unless another set-up went on meanwhile
		if found, err = s.members.identities(ctx); err != nil {
			return false, unavailable("set up", err)
		}
		fresh, open, err = ballot.SetUp(want, found)
	}
	if err != nil {
		return false, fmt.Errorf("set up: %w: %w", driver.ErrInvalid, err)
	}
	last, _, err := readMeta(ctx, s.members.all[0].connected(), driver.Kinds()[0])
	if err != nil {
		return false, unavailable("set up server 1", err)
	}
	want.Incarnation, want.Turn = uuid.NewString(), last.Turn+1
	if !fresh {
		want.Incarnation, want.Turn = last.Incarnation, last.Turn
	}
	want.By = want.Incarnation
	all := make([]*server, len(s.members.all))
	for i, at := range s.members.all {
		want.Index = i
		all[i] = at.as(want)
		if fresh {
			open = append(open, i)
			if err := all[i].reserve(ctx, s.members.nonce); err != nil {
				return false, unavailable(fmt.Sprintf("set up server %d", i+1), err)
			}
		}
	}
	for _, i := range open {
		if err := confirm(ctx, all[i].client, all[i].id, s.members.nonce); err != nil {
			return false, unavailable(fmt.Sprintf("set up server %d", i+1), err)
		}
	}
	return len(open) > 0, nil
}

// as is a connected server under an identity that does not count yet: for who sets it up or re-admits it.
func (s *server) as(id ballot.Identity) *server {
	own := newServer(s.index, s.spec)
	s.mu.Lock()
	defer s.mu.Unlock()
	own.client, own.lineage, own.id, own.counts = s.client, s.lineage, id, true
	return own
}

// reserve reserves the server, which must be empty. Anything else would be an old backup, or another program's.
func (s *server) reserve(ctx context.Context, nonce func() int64) error {
	if err := reserve(ctx, s.client, s.id, nonce); err != nil {
		return err
	}
	for _, kind := range driver.Kinds() {
		reply, err := s.client.List(ctx, kind, driver.Query{NoBody: true})
		if err != nil {
			return err
		}
		for _, d := range reply.Docs {
			if one, err := parse(d); !isReserved(d.ID) && (err != nil || !one.harmless()) {
				return fmt.Errorf("%w: server %d, %s, must be empty, and holds %d documents of the kind %s, such as %.80q",
					driver.ErrInvalid, s.index+1, s.spec.Name, len(reply.Docs), kind, d.ID)
			}
		}
	}
	return nil
}

// harmless says of a record that it may be on a server that is to count from now on. Replicas make some without a value
// before they notice that a disk is lost. A re-admission that was cut off has had what was decided accepted.
func (r record) harmless() bool {
	return r.Accepted.Ballot.Zero() || r.Accepted.Ballot.Counter > ballot.Jump
}

// Readmit takes a server back that lost its disk: index counts from 0. It takes the steps of [ballot.Readmission]. It
// may be repeated, also at the same time: then one of them ends with an error that wraps [driver.ErrUnavailable].
// Replicas may run. report, if not nil, gets how many documents were decided again.
//
// The server must be empty. Within ctx it waits until the server answers. An error wraps [driver.ErrInvalid] where the
// server did not lose its identity, or is not empty.
func (s *Store) Readmit(ctx context.Context, index int, report func(kind driver.Kind, documents int)) error {
	if index < 0 || index >= len(s.members.all) {
		return fmt.Errorf("re-admit: %w: server %d, want 1 to %d", driver.ErrInvalid, index+1, len(s.members.all))
	}
	if err := s.members.found.looked(ctx, index); err != nil {
		return fmt.Errorf("re-admit: server %d: %w", index+1, err)
	}
	id, standings := s.members.found.identities()
	if err := ballot.Readmission(standings, index); err != nil {
		return fmt.Errorf("re-admit: %w: %w", driver.ErrInvalid, err)
	}
	id.Index, id.By = index, uuid.NewString()
	r := &readmission{store: s, back: s.members.all[index].as(id), known: map[driver.Kind][]string{}}
	if err := r.run(ctx, report); err != nil {
		return unavailable("re-admit", err)
	}
	s.members.all[index].doubt(errLost, false) // it is looked at again at once
	return nil
}

// readmission is the work of taking one server back.
type readmission struct {
	store *Store
	back  *server // under the identity that reserves it
	known map[driver.Kind][]string
	floor int64 // above all counters by which others refuse
	rev   int64 // the largest of the others' records
}

func (r *readmission) run(ctx context.Context, report func(kind driver.Kind, documents int)) error {
	nonce := r.store.members.nonce
	if err := r.back.reserve(ctx, nonce); err != nil {
		return err
	}
	if err := r.survey(ctx); err != nil {
		return err
	}
	for _, kind := range driver.Kinds() {
		for at := range r.others() {
			if err := at.raiseFloor(ctx, kind, r.floor, nonce); err != nil {
				return err
			}
		}
	}
	// A replica that still remembers a record of the lost disk must not find another one at that revision.
	err := changeReserved(ctx, r.back.client, r.back.id, nonce, func(m *meta) {
		m.Floor, m.Base = max(m.Floor, r.floor), max(m.Base, r.rev+revJump)
	})
	if err != nil {
		return err
	}
	for _, kind := range driver.Kinds() {
		n, err := r.decide(ctx, kind)
		if err != nil {
			return fmt.Errorf("decide %s again: %w", kind, err)
		}
		if report != nil {
			report(kind, n)
		}
	}
	return confirm(ctx, r.back.client, r.back.id, nonce)
}

// others are the other servers that count, with their clients.
func (r *readmission) others() iter.Seq2[*server, driver.Store] {
	return func(yield func(*server, driver.Store) bool) {
		for i, at := range r.store.members.all {
			client, _, err := at.serving()
			if i != r.back.index && err == nil && !yield(at, client) {
				return
			}
		}
	}
}

// survey finds all documents that any other server knows, and the highest counter that any refuses by.
func (r *readmission) survey(ctx context.Context) error {
	reached := 0
	for at, client := range r.others() {
		reached++
		for _, kind := range driver.Kinds() {
			seen, err := at.look(ctx, kind, nil)
			if err != nil {
				return err
			}
			r.floor = max(r.floor, seen.meta.Floor)
			reply, err := client.List(ctx, kind, driver.Query{NoBody: true})
			if err != nil {
				return err
			}
			for _, d := range reply.Docs {
				if d.ID == metaID {
					continue
				}
				if r.known[kind] = append(r.known[kind], d.ID); isCounter(d) {
					continue
				}
				one, err := parse(d)
				if err != nil {
					return err
				}
				r.floor, r.rev = max(r.floor, one.RefusedBelow()), max(r.rev, one.rev)
			}
		}
	}
	if need := r.store.members.majority(); reached < need {
		return fmt.Errorf("%w: %d of the other servers count, want %d", driver.ErrUnavailable, reached, need)
	}
	r.floor += ballot.Jump
	return nil
}

// decide has all documents of a kind decided again, and accepted by the server that comes back.
func (r *readmission) decide(ctx context.Context, kind driver.Kind) (int, error) {
	ids := slices.Compact(slices.Sorted(slices.Values(r.known[kind])))
	counters := slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return !isReserved(id) })
	ids = slices.DeleteFunc(ids, isReserved)
	for part := range slices.Chunk(ids, driver.MaxBatch) {
		if err := r.decidePart(ctx, kind, part); err != nil {
			return 0, err
		}
	}
	return len(ids), r.count(ctx, counters)
}

func (r *readmission) decidePart(ctx context.Context, kind driver.Kind, ids []string) error {
	items := make([]*item, len(ids))
	for i, id := range ids {
		items[i] = &item{key: key{kind, id}, above: r.floor, judge: func(v ballot.Value, _ bool) (ballot.Value, bool) {
			return v, false
		}}
	}
	ctx, release := r.store.members.life.Bound(ctx)
	defer release()
	if err := r.store.proposer.decide(ctx, items); err != nil {
		return err
	}
	requests := make([]request, len(items))
	for i, it := range items {
		requests[i] = request{key: it.key, accept: true, ballot: it.round.Ballot, value: it.round.Value}
	}
	answers, err := r.back.execute(ctx, requests, r.store.members.nonce)
	if err == nil && slices.ContainsFunc(answers, func(a answer) bool { return !a.given }) {
		err = errNotAccepted
	}
	return err
}

var errNotAccepted = fmt.Errorf("%w: the server that is re-admitted did not take a document", driver.ErrUnavailable)

// revJump covers changes of records by promises alone, and increments that were never acknowledged.
const revJump = 1 << 20

// count gives the server counters above all that it may have counted: readers remember them. Each increment that was
// acknowledged is with half of the others at least. So one of them has counted half as much as the lost one had.
func (r *readmission) count(ctx context.Context, ids []string) error {
	if len(ids) == 0 {
		return nil
	}
	most := map[string]driver.Doc{}
	for _, client := range r.others() {
		reply, err := client.Read(ctx, driver.KindGroup, ids...)
		if err != nil {
			return err
		}
		for _, d := range reply.Docs {
			m := most[d.ID]
			m.Kind, m.ID, m.Count, m.Rev = d.Kind, d.ID, max(m.Count, d.Count), max(m.Rev, d.Rev)
			most[d.ID] = m
		}
	}
	has, err := r.back.client.Read(ctx, driver.KindGroup, ids...)
	if err != nil {
		return err
	}
	revs := map[string]int64{}
	for _, d := range has.Docs {
		revs[d.ID] = d.Rev
	}
	var changes []driver.Change
	for id, d := range most {
		d.Count = 2*d.Count + revJump
		d.Rev = max(d.Rev, revs[id]+1)
		d.WriterID = driver.WriterID{Session: "quorum", Seq: r.store.members.nonce()}
		changes = append(changes, driver.Change{IfRev: revs[id], Doc: d})
	}
	return written(r.back.client.Apply(ctx, changes...))
}
