// Package idempotencystore keeps the records of requests in a store of package elect: at most one effect.
//
// A record is a document of the kind request. It names the session of the process that works on the request. When that
// session is dead, so is the caller, within the lease duration T: repetitions learn that it was interrupted, or call
// the work again (idempotency.Config.Recover). The context of the work ends, with cause elect.ErrLeaseLost, before the
// others may take the process for dead. All requests of a process cost its one heartbeat.
//
// Electors of the cluster remove records whose time is over.
//
// What a store may lose, the records lose as well. A Redis that fails over may lose acknowledged writes; then a request
// that was done is new. Where that must not be, keep the record in the transaction of the work.
package idempotencystore

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/shardctl/shardctl/internal/clock"
	"github.com/shardctl/shardctl/internal/electing"
	"github.com/shardctl/shardctl/internal/protocol"
	"github.com/shardctl/shardctl/internal/record"
	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/idempotency"
	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/driver"
)

// How long an operation waits.
const (
	retryPause  = 50 * time.Millisecond // before what was not answered is repeated
	tryWithin   = 15 * time.Second      // for an answer, when the caller has gone
	openWithin  = 5 * time.Second       // for a valid session
	lookPause   = 10 * time.Millisecond // between two looks for it
	looksALease = 50                    // at the lease, while the work goes on
)

// New keeps records in db, under the session of an elector on the same store. The elector has been started, and is
// closed after the last call of idempotency.Guard.Do has returned.
func New(e *elect.Elector, db store.Store) idempotency.Records {
	return &records{
		elector: e, db: db, writer: uuid.NewString(), missing: make(map[string]time.Time),
		lease: 10 * e.Cluster().Heartbeat(),
	}
}

// records implements idempotency.Records.
type records struct {
	elector *elect.Elector
	db      store.Store
	lease   time.Duration
	writer  string // names the writes, with seq
	seq     atomic.Int64

	mu      sync.Mutex
	missing map[string]time.Time // sessions without a document, and when that was first seen
}

func (s *records) Transactional() bool { return false }

func (s *records) Read(ctx context.Context, id string) (idempotency.Found, error) {
	found, _, err := s.read(ctx, id)
	return found, err
}

// read returns the reply as well: it has the store's clock.
func (s *records) read(ctx context.Context, id string) (idempotency.Found, driver.Reply, error) {
	reply, err := s.db.Read(ctx, driver.KindRequest, id)
	if err != nil {
		return idempotency.Found{}, reply, fmt.Errorf("read request: %w", err)
	}
	var doc *driver.Doc
	if len(reply.Docs) > 0 {
		doc = &reply.Docs[0]
	}
	found, err := foundOf(doc, reply.Wall)
	return found, reply, err
}

// foundOf is a document as a record; nil: there is none.
func foundOf(d *driver.Doc, now int64) (idempotency.Found, error) {
	if d == nil {
		return idempotency.Found{}, nil
	}
	r, err := idempotency.DecodeRecord(d.Body)
	return idempotency.Found{Record: r, Version: d.Rev, Expired: d.Expires > 0 && d.Expires <= now}, err
}

// Write reads the document first: that shows the store's clock, which the revision follows.
func (s *records) Write(ctx context.Context, w idempotency.Write) (idempotency.Answer, error) {
	found, reply, err := s.read(ctx, w.ID)
	if err != nil || found.Version != w.Over {
		return idempotency.Answer{Found: found}, err
	}
	change, err := s.change(w, reply)
	if err != nil {
		return idempotency.Answer{}, err
	}
	out, err := s.apply(ctx, change)
	switch {
	case err != nil:
		return idempotency.Answer{}, fmt.Errorf("write request: %w", err)
	case out.Status == driver.Unknown:
		go s.settle(context.WithoutCancel(ctx), w, change)
		return idempotency.Answer{}, fmt.Errorf("write request: %w", errors.Join(context.Cause(ctx), out.Err))
	case out.Status == driver.Applied:
		return idempotency.Answer{Applied: true, Version: change.Doc.Rev}, nil
	}
	found, err = foundOf(out.Doc, reply.Wall)
	return idempotency.Answer{Found: found}, err
}

// change is a write as the store takes it.
func (s *records) change(w idempotency.Write, reply driver.Reply) (driver.Change, error) {
	d := driver.Doc{
		Kind: driver.KindRequest, ID: w.ID, Rev: protocol.NextRev(w.Over, max(reply.Floor, reply.Now)),
		WriterID: driver.WriterID{Session: s.writer, Seq: s.seq.Add(1)},
	}
	d.Expires = reply.Wall + w.Keep.Milliseconds()
	r := w.Record
	if r == nil {
		// It is not deleted, but has expired: created again in the same millisecond, it could be at a revision that it
		// had before, and a late write would take the one for the other.
		r = &idempotency.Record{ID: w.ID, State: idempotency.Failed, Claim: s.writer, Attempt: 1}
		d.Expires = 1
	}
	body, err := r.Encode()
	if err != nil {
		return driver.Change{}, err
	}
	d.Session, d.State, d.Body = r.Owner, string(r.State), body
	return driver.Change{IfRev: w.Over, Doc: d}, nil
}

// apply repeats a change, as the very same write, until it is known how it ended, or ctx ends. Once it is known, no
// copy of it can still land.
func (s *records) apply(ctx context.Context, c driver.Change) (driver.Outcome, error) {
	for {
		outs, err := s.db.Apply(ctx, c)
		if err != nil {
			return driver.Outcome{}, err
		}
		if outs[0].Status != driver.Unknown {
			return outs[0], nil
		}
		if clock.Sleep(ctx, retryPause) != nil {
			return outs[0], nil //nolint:nilerr // the outcome says that it is not known
		}
	}
}

// settle sees a write through whose caller has gone without an answer. While the session lives no one else may take
// what it has started, so a claim is taken back: its caller does not work. When the elector is closed its session is
// dead, and others find that.
func (s *records) settle(ctx context.Context, w idempotency.Write, c driver.Change) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-s.elector.Done():
			cancel()
		case <-ctx.Done():
		}
	}()
	out := driver.Outcome{Status: driver.Unknown}
	for out.Status == driver.Unknown {
		var err error
		if out, err = s.try(ctx, c); err != nil || ctx.Err() != nil {
			return
		}
	}
	if out.Status != driver.Applied || w.Record == nil || w.Record.State != idempotency.Started {
		return
	}
	w.Over, w.Record = c.Doc.Rev, takenBack(*w.Record)
	for {
		if s.tryWrite(ctx, w) == nil || clock.Sleep(ctx, retryPause) != nil {
			return
		}
	}
}

func (s *records) try(ctx context.Context, c driver.Change) (driver.Outcome, error) {
	ctx, cancel := context.WithTimeout(ctx, tryWithin)
	defer cancel()
	return s.apply(ctx, c)
}

func (s *records) tryWrite(ctx context.Context, w idempotency.Write) error {
	ctx, cancel := context.WithTimeout(ctx, tryWithin)
	defer cancel()
	_, err := s.Write(ctx, w)
	return err
}

// takenBack is what a claim is written over with that no one works under: nothing, as before a first attempt. Before
// another one a failure was kept.
func takenBack(r idempotency.Record) *idempotency.Record {
	if r.Attempt == 1 {
		return nil
	}
	r.State, r.Failure = idempotency.Failed, "its claim was not answered in time, and nothing was done"
	return &r
}

// BindSession names the session of now.
func (s *records) BindSession(ctx context.Context) (context.Context, string, func(), error) {
	session, valid := s.elector.Session()
	for began := time.Now(); !valid; session, valid = s.elector.Session() {
		if time.Since(began) > openWithin {
			return nil, "", nil, fmt.Errorf("%w: this process has no valid session", idempotency.ErrUnavailable)
		}
		if err := clock.Sleep(ctx, lookPause); err != nil {
			return nil, "", nil, err
		}
	}
	held, cancel := context.WithCancelCause(ctx)
	go s.watch(held, cancel, session)
	return held, session, func() { cancel(context.Canceled) }, nil
}

// watch ends the context of the work when the lease of its session can no longer be trusted.
func (s *records) watch(held context.Context, cancel context.CancelCauseFunc, session string) {
	ticker := time.NewTicker(max(s.lease/looksALease, time.Millisecond))
	defer ticker.Stop()
	for {
		select {
		case <-held.Done():
			return
		case <-ticker.C:
		}
		if now, valid := s.elector.Session(); now != session || !valid {
			cancel(elect.ErrLeaseLost)
			return
		}
	}
}

// Dead asks the session's document: only one that says so makes a session dead. The electors of the cluster see to that
// within T. A document that is missing was removed an hour after the death, or out of band. Then it is made, as dead,
// once it has been missing for the longest lease that is known: the process has noticed by then.
func (s *records) Dead(ctx context.Context, owner string) (bool, error) {
	reply, err := s.db.Read(ctx, driver.KindSession, owner)
	if err != nil {
		return false, fmt.Errorf("read session %s: %w", owner, err)
	}
	if len(reply.Docs) > 0 {
		s.seen(owner)
		found, err := record.SessionFrom(reply.Docs[0])
		return err == nil && found.State == record.Dead, nil // one that was edited out of band is not dead for sure
	}
	if !s.missingFor(owner, s.longestLease()) {
		return false, nil
	}
	if err := electing.MarkDead(ctx, s.db, electing.Session{ID: owner}); err != nil {
		return false, err
	}
	s.seen(owner)
	return true, nil
}

func (s *records) seen(session string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.missing, session)
}

// missingFor says whether a session has been missing for so long.
func (s *records) missingFor(session string, d time.Duration) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	since, known := s.missing[session]
	if !known {
		s.missing[session] = time.Now()
	}
	return known && time.Since(since) > d
}

// longestLease is the longest lease of all processes that are known.
func (s *records) longestLease() time.Duration {
	longest := s.lease
	for _, one := range s.elector.Cluster().View().Sessions {
		longest = max(longest, time.Duration(one.Member.LeaseMS)*time.Millisecond)
	}
	return longest
}
