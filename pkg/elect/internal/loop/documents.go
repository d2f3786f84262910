package loop

import (
	"context"
	"fmt"
	"iter"
	"sync"
	"time"

	"github.com/go-logr/logr"

	"github.com/shardctl/shardctl/internal/protocol"
	"github.com/shardctl/shardctl/internal/record"
	"github.com/shardctl/shardctl/pkg/elect/internal/engine"
	"github.com/shardctl/shardctl/pkg/store/driver"
)

// Documents reads and writes the store's documents as records. It may be used concurrently. Each operation takes op at
// most.
type Documents struct {
	op        time.Duration
	store     timedStore
	log       logr.Logger
	malformed *malformed
}

// newDocuments reads and writes those of db. Each call belongs to the lineage of its moment: see DecidedOn.
func newDocuments(db driver.Store, lineage *Lineage, clock *StoreClock, op time.Duration, log logr.Logger) Documents {
	return Documents{
		op: op, store: timedStore{lineageStore{Store: &movedStore{Store: db}, lineage: lineage}, clock}, log: log,
		malformed: &malformed{},
	}
}

// DecidedOn returns the same documents for calls that were decided on what belongs to a lineage. They fail where the
// store follows another one.
func (d Documents) DecidedOn(lineage string) Documents {
	d.store.known = &lineage
	return d
}

// list lists documents, limited in time.
func (d Documents) list(ctx context.Context, kind driver.Kind, q driver.Query) (driver.Reply, error) {
	ctx, cancel := context.WithTimeout(ctx, d.op)
	defer cancel()
	return d.store.List(ctx, kind, q)
}

// pageLen is how many documents are listed at once.
const pageLen = 5_000

// ListLocks lists locks page by page.
func (d Documents) ListLocks(ctx context.Context, q driver.Query) ([]driver.Doc, error) {
	var all []driver.Doc
	for page, err := range d.pages(ctx, driver.KindLock, q) {
		if err != nil {
			return nil, err
		}
		all = append(all, page...)
	}
	return all, nil
}

// pages lists documents by the page, in the order of their ids, until the last one or the first error.
func (d Documents) pages(ctx context.Context, kind driver.Kind, q driver.Query) iter.Seq2[[]driver.Doc, error] {
	q.Limit = pageLen
	return func(yield func([]driver.Doc, error) bool) {
		for {
			reply, err := d.list(ctx, kind, q)
			if !yield(reply.Docs, err) || err != nil || len(reply.Docs) < pageLen {
				return
			}
			q = q.After(reply.Docs[len(reply.Docs)-1].ID)
		}
	}
}

// decodeLocks reads locks from their documents, outside the loop. Each is a thing of its own: one that stays must not
// keep the whole list in memory.
func (d Documents) decodeLocks(docs []driver.Doc) []*record.Lock {
	locks := make([]*record.Lock, len(docs))
	for i := range docs {
		locks[i] = d.found(&docs[i])
	}
	return locks
}

// decodedLocks lists locks page by page, and decodes them.
func (d Documents) decodedLocks(ctx context.Context, q driver.Query) ([]*record.Lock, error) {
	docs, err := d.ListLocks(ctx, q)
	return d.decodeLocks(docs), err
}

// ReadLock reads a lock. One that is absent has revision 0.
func (d Documents) ReadLock(ctx context.Context, key record.Key) (record.Lock, error) {
	ctx, cancel := context.WithTimeout(ctx, d.op)
	defer cancel()
	reply, err := d.store.Read(ctx, driver.KindLock, string(key))
	if err != nil {
		return record.Lock{}, fmt.Errorf("lock %s: read it: %w", key, err)
	}
	if len(reply.Docs) == 0 {
		return record.Lock{Key: key}, nil
	}
	// also a malformed one: who owns it still counts, and the next claim writes the rest
	return d.decodeLock(reply.Docs[0]), nil
}

// ReadClock has a reply of the store set its clock.
func (d Documents) ReadClock(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, d.op)
	defer cancel()
	_, err := d.store.Read(ctx, driver.KindGroup, record.GroupMutexes)
	return err
}

func (d Documents) decodeLock(doc driver.Doc) record.Lock {
	lock, err := record.LockFrom(doc)
	d.malformed.note(d.log, doc, err)
	return lock
}

// found is a lock as an outcome or a read shows it; nil when it is absent.
func (d Documents) found(doc *driver.Doc) *record.Lock {
	if doc == nil {
		return nil
	}
	lock := d.decodeLock(*doc)
	return &lock
}

// applyOne sends one change. With an error the store cannot take it at all, and the outcome is unknown.
func (d Documents) applyOne(ctx context.Context, change driver.Change) (driver.Outcome, error) {
	outs, err := d.store.Apply(ctx, change)
	if err != nil {
		return driver.Outcome{}, err
	}
	return outs[0], nil
}

// applyEach sends changes one by one: the store cannot take one of them at all, and the others must not wait for it.
// Its outcome has the error that says why.
func (d Documents) applyEach(ctx context.Context, changes []driver.Change) []driver.Outcome {
	outs := make([]driver.Outcome, len(changes))
	for i, change := range changes {
		out, err := d.applyOne(ctx, change)
		if err != nil {
			d.log.Error(err, "The store cannot take this write", "document", string(change.Doc.Kind)+" "+change.Doc.ID)
			out.Err = err
		}
		outs[i] = out
	}
	return outs
}

func (d Documents) listSessions(ctx context.Context, l engine.SessionPoll) ([]driver.Doc, error) {
	alive := []string{string(record.Live), string(record.Draining)}
	if l.All {
		reply, err := d.list(ctx, driver.KindSession, driver.Query{States: alive})
		return reply.Docs, err
	}
	reply, err := d.list(ctx, driver.KindSession, driver.Query{States: alive, From: l.From + "\x00", Limit: l.Count})
	if err != nil || len(reply.Docs) == l.Count {
		return reply.Docs, err
	}
	first, err := d.list(
		ctx, driver.KindSession, driver.Query{States: alive, To: l.From, Limit: l.Count - len(reply.Docs)},
	)
	return append(reply.Docs, first.Docs...), err
}

// foundMutex is a mutex as an outcome or a read shows it; nil when it is absent.
func (d Documents) foundMutex(doc *driver.Doc) *protocol.MutexDoc {
	if doc == nil {
		return nil
	}
	is, err := record.MutexFrom(*doc)
	d.malformed.note(d.log, *doc, err)
	return &is
}

func (d Documents) decodeSession(doc driver.Doc) record.Session {
	s, err := record.SessionFrom(doc)
	d.malformed.note(d.log, doc, err)
	return s
}

// ReadValue returns a value's document, whose count is the largest token that has read or set it; the zero document
// when there is none.
func (d Documents) ReadValue(ctx context.Context, key record.Key) (driver.Doc, error) {
	ctx, cancel := context.WithTimeout(ctx, d.op)
	defer cancel()
	reply, err := d.store.Read(ctx, driver.KindValue, string(key))
	if err != nil || len(reply.Docs) == 0 {
		return driver.Doc{}, err
	}
	return reply.Docs[0], nil
}

// ApplyValue is applyOne, limited in time.
func (d Documents) ApplyValue(ctx context.Context, change driver.Change) (driver.Outcome, error) {
	ctx, cancel := context.WithTimeout(ctx, d.op)
	defer cancel()
	return d.applyOne(ctx, change)
}

// maxMalformed bounds the memory of what was logged.
const maxMalformed = 1000

// malformed logs documents that cannot be read whole, each once for each time it was edited. It may be used
// concurrently.
type malformed struct {
	mu     sync.Mutex
	logged map[docAt]bool
}

type docAt struct {
	kind driver.Kind
	id   string
	rev  int64
}

// note logs what was wrong with d, if anything was.
func (m *malformed) note(log logr.Logger, d driver.Doc, err error) {
	if err == nil {
		return
	}
	at := docAt{d.Kind, d.ID, d.Rev}
	m.mu.Lock()
	known := m.logged[at]
	if m.logged == nil || len(m.logged) >= maxMalformed {
		m.logged = map[docAt]bool{}
	}
	m.logged[at] = true
	m.mu.Unlock()
	if !known {
		log.Info(
			"A document in the store is malformed: somebody has edited it", "document", string(d.Kind)+" "+d.ID,
			"error",
			err.Error(),
		)
	}
}

// refresh does what a plan of the cache says: the counters first, then what they say has changed. It runs outside the
// loop.
func (d Documents) refresh(ctx context.Context, p engine.RefreshPlan) (engine.Reading, error) {
	r := engine.Reading{Counts: map[string]int64{}, Locks: map[string][]*record.Lock{}}
	counters, err := d.list(ctx, driver.KindGroup, driver.Query{NoBody: true})
	if err != nil {
		return r, err
	}
	r.Clock, r.Floor = counters.Now, counters.Floor
	for _, doc := range counters.Docs {
		r.Counts[doc.ID] = doc.Count
	}
	for _, name := range p.Groups() {
		from, ok := p.From(name, r)
		if !ok {
			continue
		}
		docs, err := d.ListLocks(ctx, driver.Query{Group: name, MinRev: from})
		if err != nil {
			return r, err
		}
		r.Locks[name] = d.decodeLocks(docs)
	}
	if p.WantsMembers(r.Counts) {
		if err := d.readMembers(ctx, &r); err != nil {
			return r, err
		}
	}
	if p.WantsOverrides(r.Counts) {
		reply, err := d.list(ctx, driver.KindOverride, driver.Query{})
		if err != nil {
			return r, err
		}
		r.Overrode = true
		for _, doc := range reply.Docs {
			o, err := record.OverrideFrom(doc)
			d.malformed.note(d.log, doc, err)
			r.Overrides = append(r.Overrides, o)
		}
	}
	return r, nil
}

func (d Documents) readMembers(ctx context.Context, r *engine.Reading) error {
	reply, err := d.list(ctx, driver.KindMember, driver.Query{})
	if err != nil {
		return err
	}
	r.Members = make(map[string]record.Member, len(reply.Docs))
	for _, doc := range reply.Docs {
		m, err := record.MemberFrom(doc)
		if err != nil { // its owner will write it again; half of its caps would be none
			d.malformed.note(d.log, doc, err)
			r.Broken = append(r.Broken, doc.ID)
			continue
		}
		r.Members[doc.ID] = m
	}
	return nil
}

func firstError(outs []driver.Outcome, err error) error {
	for _, o := range outs {
		if err == nil {
			err = o.Err
		}
	}
	return err
}
