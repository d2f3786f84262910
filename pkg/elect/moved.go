package elect

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/shardctl/shardctl/pkg/elect/record"
	"github.com/shardctl/shardctl/pkg/store"
)

// ErrMoved says that no key can be claimed in this store: its documents were moved to another one.
var ErrMoved = record.ErrMoved

// movedStore makes a store whose documents were moved look as if it were away: writes are not sent.
//
// Each session reads the mark of a move before its first write of a lock or a mutex. A mover writes the mark and then
// looks for sessions. A session is written before its first lock. So either the mover sees the session, or the session
// sees the mark: a List shows what was acknowledged before the client's own write took effect ([store.Store]). The read
// before a session is made keeps dead documents out of the store, and no promise hangs on it.
type movedStore struct {
	store.Store
	passed atomic.Pointer[string] // the session that has read that there is none
	moved  atomic.Bool            // the last look found one
}

// Apply implements [store.Store].
func (s *movedStore) Apply(ctx context.Context, changes ...store.Change) ([]store.Outcome, error) {
	writer, locks, opens := written(changes)
	passed := s.passed.Load()
	first := locks && (passed == nil || *passed != writer)
	if first || opens || s.moved.Load() {
		err := record.CheckMoved(ctx, s.Store)
		s.moved.Store(errors.Is(err, ErrMoved))
		if err != nil {
			return store.AllUnknown(len(changes), fmt.Errorf("look for the mark of a move: %w", err)), nil
		}
	}
	if first {
		s.passed.Store(&writer)
	}
	return s.Store.Apply(ctx, changes...)
}

// written says whether locks or mutexes are written, by which session, and whether a session is made. A batch is of one
// session.
func written(changes []store.Change) (writer string, locks, opens bool) {
	for _, c := range changes {
		if c.Doc.Kind == store.KindLock || c.Doc.Kind == store.KindMutex {
			return c.Doc.WriterID.Session, true, false
		}
		opens = opens || c.Doc.Kind == store.KindSession && c.Op == store.Put && c.IfRev == 0 &&
			c.Doc.State != string(record.Dead)
	}
	return "", false, opens
}
