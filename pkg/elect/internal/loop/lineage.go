package loop

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/shardctl/shardctl/internal/record"
	"github.com/shardctl/shardctl/pkg/elect/internal/engine"
	"github.com/shardctl/shardctl/pkg/store/driver"
)

// Lineage is the lineage that what is known here belongs to, as the store's replies name it. It may be read
// concurrently; only the loop changes it.
type Lineage struct {
	known atomic.Pointer[string]
	// has the loop change the lineage, when a reply has named another; nil: there is no loop, and nothing is held
	changed atomic.Pointer[func(from, to string)]
}

func newLineage() *Lineage {
	c := &Lineage{}
	c.known.Store(new(string))
	return c
}

// now is the lineage as last shown.
func (c *Lineage) now() string { return *c.known.Load() }

// become changes the lineage. It reports false when it is not at from any more: the reply was an old one.
func (c *Lineage) become(from, to string) bool {
	known := c.known.Load()
	return *known == from && c.known.CompareAndSwap(known, &to)
}

// check fails where a reply belongs to another lineage than the call. The first reply names the first lineage: nothing
// was known before.
func (c *Lineage) check(known, shown string) error {
	if known == "" {
		c.become("", shown)
		known = c.now()
	}
	if known == shown {
		return nil
	}
	if diverged := c.changed.Load(); diverged != nil {
		(*diverged)(known, shown)
	} else {
		c.become(known, shown)
	}
	return fmt.Errorf("%w: %w", driver.ErrUnavailable, engine.ErrLineage)
}

// lineageStore is a store whose replies from another lineage are failures. Those who ask need to know nothing
// of it: they ask again, once all that was known before is forgotten.
type lineageStore struct {
	driver.Store
	lineage *Lineage
	known   *string // what calls were decided on; nil: the lineage of their moment
}

// decidedOn is the lineage that a call belongs to.
func (s lineageStore) decidedOn() string {
	if s.known != nil {
		return *s.known
	}
	return s.lineage.now()
}

func (s lineageStore) Read(ctx context.Context, kind driver.Kind, ids ...string) (driver.Reply, error) {
	known := s.decidedOn()
	reply, err := s.Store.Read(ctx, kind, ids...)
	if err == nil {
		err = s.lineage.check(known, reply.Lineage)
	}
	if err != nil {
		reply = driver.Reply{}
	}
	return reply, err
}

func (s lineageStore) List(ctx context.Context, kind driver.Kind, q driver.Query) (driver.Reply, error) {
	known := s.decidedOn()
	reply, err := s.Store.List(ctx, kind, q)
	if err == nil {
		err = s.lineage.check(known, reply.Lineage)
	}
	if err != nil {
		reply = driver.Reply{}
	}
	return reply, err
}

func (s lineageStore) Apply(ctx context.Context, changes ...driver.Change) ([]driver.Outcome, error) {
	known := s.decidedOn()
	if known != "" {
		changes = slices.Clone(changes)
		for i := range changes {
			changes[i].Lineage = known
		}
	}
	outs, err := s.Store.Apply(ctx, changes...)
	for i, out := range outs {
		if out.Status == driver.Unknown && out.Lineage == "" {
			continue
		}
		if err := s.lineage.check(known, out.Lineage); err != nil {
			outs[i] = driver.Outcome{Err: err, Lineage: out.Lineage}
		}
	}
	return outs, err
}

// movedStore makes a store whose documents were moved look as if it were away: writes are not sent.
//
// Each session reads the mark of a move before its first write of a lock or a mutex. A mover writes the mark and then
// looks for sessions. A session is written before its first lock. So either the mover sees the session, or the session
// sees the mark: a List shows what was acknowledged before the client's own write took effect ([driver.Store]). The read
// before a session is made keeps dead documents out of the store, and no promise hangs on it.
type movedStore struct {
	driver.Store
	passed atomic.Pointer[string] // the session that has read that there is none
	moved  atomic.Bool            // the last look found one
}

// Apply implements [driver.Store].
func (s *movedStore) Apply(ctx context.Context, changes ...driver.Change) ([]driver.Outcome, error) {
	writer, locks, opens := written(changes)
	passed := s.passed.Load()
	first := locks && (passed == nil || *passed != writer)
	if first || opens || s.moved.Load() {
		err := record.CheckMoved(ctx, s.Store)
		s.moved.Store(errors.Is(err, record.ErrMoved))
		if err != nil {
			return driver.AllUnknown(len(changes), fmt.Errorf("look for the mark of a move: %w", err)), nil
		}
	}
	if first {
		s.passed.Store(&writer)
	}
	return s.Store.Apply(ctx, changes...)
}

// written says whether locks or mutexes are written, by which session, and whether a session is made. A batch is of one
// session.
func written(changes []driver.Change) (writer string, locks, opens bool) {
	for _, c := range changes {
		if c.Doc.Kind == driver.KindLock || c.Doc.Kind == driver.KindMutex {
			return c.Doc.WriterID.Session, true, false
		}
		opens = opens || c.Doc.Kind == driver.KindSession && c.Op == driver.Put && c.IfRev == 0 &&
			c.Doc.State != string(record.Dead)
	}
	return "", false, opens
}
