package quorum

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/internal/quorum"
)

// maxRecords bounds what is remembered of one server, so that a write needs no read before it.
const maxRecords = 20_000

var (
	errAway   = errors.New("the server does not count now")
	errLost   = errors.New("the server has no identity: it lost its disk, or is another one")
	errBusy   = errors.New("the server has not answered for a while")
	errFought = errors.New("others change the record again and again")
	// errRestarted is for stores that say when they may have forgotten something: see History of [store.Reply].
	errRestarted = errors.New("the server was started again, or another one has taken its place")
)

// server is one of the stores, with what this process knows of its records. Its methods may be called concurrently.
type server struct {
	index int
	spec  Server
	pace  pace

	mu      sync.Mutex
	client  store.Store // nil: not connected
	history string      // of its store, when its identity was read last
	reopen  bool        // the client is to be opened again: settings are looked at then
	id      quorum.Identity
	counts  bool
	trouble error         // why it does not count
	leave   chan struct{} // wakes who tends it, when it is found not to count any more
	failed  chan struct{} // wakes who tends it, when a call has failed
	known   map[key]record
	floors  map[store.Kind]int64
}

func newServer(index int, spec Server) *server {
	return &server{
		index: index, spec: spec, leave: make(chan struct{}, 1), failed: make(chan struct{}, 1),
		known: map[key]record{}, floors: map[store.Kind]int64{}, trouble: errAway,
	}
}

// follows takes a server out of service whose store follows another history: it may have other settings by now.
func (s *server) follows(history string) error {
	s.mu.Lock()
	changed := history != s.history
	s.mu.Unlock()
	if !changed {
		return nil
	}
	s.reconnect(errRestarted)
	return fmt.Errorf("%w: %w", store.ErrUnavailable, errRestarted)
}

// connected is the client, whether the server counts or not; nil: it is not connected.
func (s *server) connected() store.Store {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.client
}

// serving is the client of a server that counts.
func (s *server) serving() (store.Store, quorum.Identity, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.counts {
		return nil, quorum.Identity{}, fmt.Errorf("%w: %w", store.ErrUnavailable, s.trouble)
	}
	return s.client, s.id, nil
}

// reconnect takes a server out of service until its client was opened again.
func (s *server) reconnect(why error) {
	s.mu.Lock()
	s.reopen = true
	s.mu.Unlock()
	s.doubt(why)
}

// fail says that a call has failed.
func (s *server) fail() {
	select {
	case s.failed <- struct{}{}:
	default:
	}
}

// doubt takes a server out of service until its identity was looked at again.
func (s *server) doubt(why error) {
	s.mu.Lock()
	s.counts, s.trouble = false, why
	clear(s.known)
	s.mu.Unlock()
	select {
	case s.leave <- struct{}{}:
	default:
	}
}

func (s *server) recall(k key) (record, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, ok := s.known[k]
	return r, ok
}

// remember keeps what a server has shown. An older answer does not take the place of a newer one.
func (s *server) remember(k key, r record) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if was, ok := s.known[k]; ok && was.rev > r.rev {
		return
	}
	if len(s.known) >= maxRecords {
		for old := range s.known {
			delete(s.known, old)
			break
		}
	}
	s.known[k] = r
}

func (s *server) forget(k key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.known, k)
}

// snapshot is what a server shows of documents of one kind.
type snapshot struct {
	store.Reply

	meta    meta
	records map[string]record  // those that there are
	foreign map[string]foreign // what is in the place of records
}

// foreign is a document of a server that is no record of the quorum: somebody has edited it, or something else writes
// there. What the server has promised and accepted is not known, so it says nothing of this document.
type foreign struct {
	rev int64 // 0: the server's own store cannot read it either, and lets a creation take its place
	err error
}

// look reads records of one kind, and the server's identity with them.
func (s *server) look(ctx context.Context, kind store.Kind, ids []string) (snapshot, error) {
	client, want, err := s.serving()
	if err != nil {
		return snapshot{}, err
	}
	asked := make([]string, 0, len(ids)+1)
	reply, err := client.Read(ctx, kind, append(append(asked, ids...), metaID)...)
	if err != nil {
		return snapshot{}, err
	}
	if err := s.follows(reply.History); err != nil {
		return snapshot{}, err
	}
	seen := snapshot{Reply: reply, records: make(map[string]record, len(reply.Docs)), foreign: map[string]foreign{}}
	for _, u := range reply.Unreadable {
		seen.foreign[u.ID] = foreign{err: u.Err}
		s.forget(key{kind, u.ID})
	}
	identified := false
	for _, d := range reply.Docs {
		if d.ID == metaID {
			if seen.meta, err = parseMeta(d); err != nil {
				return snapshot{}, err
			}
			identified = seen.meta.identity() == want
			s.noteFloor(kind, seen.meta.Floor)
			continue
		}
		if isCounter(d) {
			continue
		}
		if is, part := seen.foreign[d.ID]; part { // not all of it can be read
			is.rev = d.Rev
			seen.foreign[d.ID] = is
			continue
		}
		r, err := parse(d)
		if err != nil {
			seen.foreign[d.ID] = foreign{d.Rev, err}
			s.forget(key{kind, d.ID})
			continue
		}
		seen.records[d.ID] = r
		s.remember(key{kind, d.ID}, r)
	}
	if !identified {
		s.doubt(errLost)
		return snapshot{}, fmt.Errorf("%w: %w", store.ErrUnavailable, errLost)
	}
	return seen, nil
}

func (s *server) noteFloor(kind store.Kind, floor int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.floors[kind] = max(s.floors[kind], floor)
}

// floor is the largest that the server has shown.
func (s *server) floor(kind store.Kind) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.floors[kind]
}

// isCounter says whether a document is one by which a server counts.
func isCounter(d store.Doc) bool { return d.Kind == store.KindGroup && groupOf(d.ID) != d.ID }

// maxTries is how often a request is tried on one server, while others change the record in between.
const maxTries = 6

// request is what a server is asked about one document: to promise a ballot, or to accept a value under it.
type request struct {
	key
	accept       bool
	ballot, next quorum.Ballot
	value        quorum.Value
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
	client  store.Store
	history string // of the store, on which records are remembered
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
	e.history = s.history
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
	return e.answers, fmt.Errorf("%w: %w", store.ErrUnavailable, errFought)
}

// recall finds the records that are still asked for: those that are remembered, else by reading them.
func (e *execution) recall(ctx context.Context) error {
	unknown := map[store.Kind][]string{}
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
	var changes []store.Change
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
		changes = append(changes, store.Change{IfRev: r.rev, Doc: d, History: e.history})
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
		left = left || !e.answers[of[j]].settled() && out.Status != store.Unknown
		if out.Status == store.Unknown {
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
func (e *execution) settle(i int, wrote record, out store.Outcome) {
	k := e.asked[i].key
	switch {
	case out.Status == store.Unknown:
		e.server.forget(k)
		return
	case out.Status == store.Applied:
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
	floors := map[store.Kind]int64{}
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
