package quorum

import (
	"context"
	"fmt"

	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/internal/ballot"
)

// maxTries is how often a request is tried on one server, while others change the record in between.
const maxTries = 6

// request is what a server is asked about one document: to promise a ballot, or to accept a value under it.
type request struct {
	key
	accept       bool
	ballot, next ballot.Ballot
	value        ballot.Value
	over         bool // what is no record is written over, as one that promises nothing: no majority can read it
}

// rule is what the acceptor makes of it.
func (q request) rule(a acceptor) (acceptor, bool) {
	if q.accept {
		return a.Accept(q.ballot, q.value, q.next)
	}
	return a.Prepare(q.ballot)
}

// answer is a server's to one request. Without given there is none. With foreign there will be none: what the server
// has is no record.
type answer struct {
	given, ok, foreign bool
	acceptor
}

// settled says that nothing more is to be done for an answer.
func (a answer) settled() bool { return a.given || a.foreign }

// execution carries requests out on one server, by compare-and-set on its records. One message holds many of them.
type execution struct {
	server  *server
	client  driver.Store
	lineage string // of the store, on which records are remembered
	nonce   func() int64
	asked   []request
	answers []answer
	records []record // as known; those at revision 0 are absent
	now     int64    // revisions of records that are made begin above it
}

// execute answers requests. A request without an answer may have been carried out.
func (s *server) execute(ctx context.Context, asked []request, nonce func() int64) ([]answer, error) {
	client, _, err := s.serving()
	if err != nil {
		return nil, err
	}
	e := &execution{
		server: s, client: client, nonce: nonce, asked: asked, answers: make([]answer, len(asked)),
		records: make([]record, len(asked)),
	}
	s.mu.Lock()
	e.lineage = s.lineage
	s.mu.Unlock()
	for range maxTries {
		if err := e.recall(ctx); err != nil {
			return e.answers, err
		}
		left, err := e.try(ctx)
		if err != nil || !left {
			return e.answers, err
		}
	}
	return e.answers, fmt.Errorf("%w: %w", driver.ErrUnavailable, errFought)
}

// recall finds the records that are still asked for: those that are remembered, else by reading them.
func (e *execution) recall(ctx context.Context) error {
	unknown := map[driver.Kind][]string{}
	for i, q := range e.asked {
		if e.answers[i].settled() {
			continue
		}
		r, ok := e.server.recall(q.key)
		e.records[i] = r
		if !ok {
			unknown[q.kind] = append(unknown[q.kind], q.id)
		}
	}
	for kind, ids := range unknown {
		seen, err := e.server.look(ctx, kind, ids)
		if err != nil {
			return err
		}
		e.now = max(e.now, seen.Floor, seen.meta.Base)
		for i, q := range e.asked {
			if r, ok := seen.records[q.id]; ok && q.kind == kind {
				e.records[i] = r
			}
			if is, ok := seen.foreign[q.id]; ok && q.kind == kind {
				e.met(i, is.rev)
			}
		}
	}
	return nil
}

// met takes what is no record, at its revision.
func (e *execution) met(i int, rev int64) {
	e.records[i] = record{rev: rev, fresh: true}
	e.answers[i].foreign = !e.asked[i].over
}

// try writes what the rule makes of the records as known. left: some have to be tried again.
func (e *execution) try(ctx context.Context) (left bool, err error) {
	if err := e.setFloors(ctx); err != nil {
		return false, err
	}
	var changes []driver.Change
	var written []record
	var of []int
	for i, q := range e.asked {
		if e.answers[i].settled() {
			continue
		}
		r := e.records[i]
		next, ok := q.rule(r.acceptor)
		switch {
		case r.rev == 0: // made without a promise: its floor is read when it is there
			r.fresh = true
		case !ok || unchanged(q, r):
			e.answers[i] = answer{given: true, ok: ok, acceptor: next}
			continue
		default:
			r.acceptor, r.fresh = next, false
		}
		d := r.document(q.key, e.now, e.nonce())
		changes = append(changes, driver.Change{IfRev: r.rev, Doc: d, Lineage: e.lineage})
		r.rev = d.Rev
		written, of = append(written, r), append(of, i)
	}
	if len(changes) == 0 {
		return false, nil
	}
	outs, err := e.client.Apply(ctx, changes...)
	if err != nil {
		return false, err
	}
	for j, out := range outs {
		e.settle(of[j], written[j], out)
		left = left || !e.answers[of[j]].settled() && out.Status != driver.Unknown
		if out.Status == driver.Unknown {
			err = out.Err
		}
	}
	return left && err == nil, err
}

// unchanged says whether a record shows the request carried out before.
func unchanged(q request, r record) bool {
	if q.accept {
		return r.Accepted.Ballot == q.ballot
	}
	return r.Promised == q.ballot
}

// settle takes the outcome of one write.
func (e *execution) settle(i int, wrote record, out driver.Outcome) {
	k := e.asked[i].key
	switch {
	case out.Status == driver.Unknown:
		e.server.forget(k)
		return
	case out.Status == driver.Applied:
		e.records[i] = wrote
		e.server.remember(k, wrote)
		if !wrote.fresh {
			e.answers[i] = answer{given: true, ok: true, acceptor: wrote.acceptor}
		}
		return
	case out.Doc == nil: // removed since, or the disk is lost: the next look shows which
		e.server.forget(k)
		e.records[i] = record{}
		return
	}
	e.server.forget(k)
	r, err := parse(*out.Doc)
	if err != nil {
		e.met(i, out.Doc.Rev)
		return
	}
	e.records[i] = r
	e.server.remember(k, r)
}

// setFloors reads the floors for records that were just made, by this process or another one. It is read after the
// record was made: a floor that was raised before it was removed is never missed. The identity is looked at as well.
func (e *execution) setFloors(ctx context.Context) error {
	floors := map[driver.Kind]int64{}
	for i, q := range e.asked {
		if !e.records[i].fresh || e.answers[i].settled() {
			continue
		}
		if _, ok := floors[q.kind]; !ok {
			seen, err := e.server.look(ctx, q.kind, nil)
			if err != nil {
				return err
			}
			floors[q.kind] = seen.meta.Floor
		}
		e.records[i].Floor = floors[q.kind]
	}
	return nil
}
