package electing

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/shardctl/shardctl/internal/protocol"
	"github.com/shardctl/shardctl/internal/record"
	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/driver"
)

// What follows writes to the store in the place of a process that is gone. A guard marks the sessions of its worker
// dead, or keeps one alive while something of its work cannot be ended. Nobody else may call it: that nothing of a
// session's work is left is on the caller's word, and that two replicas never run one key depends on it.

// Session is a session whose process is gone.
type Session struct {
	ID string
	// Remote are the keys that remote endpoints may still work on, and for how long: from the moment of a call of
	// [MarkDead], or from when the elector is made that has the session for a predecessor.
	Remote map[record.Key]time.Duration
}

// ErrDead says that the session is dead or missing: others may take its keys.
var ErrDead = errors.New("lease lost")

// Keep stands in for a session's process that has died while something of its work cannot be ended: it writes the
// session's next heartbeat, by which the session drains, and frees the keys for which runs is false. Only the guard of
// that process may call it, at least every tenth of the lease, until nothing of the work is left and [MarkDead] may be
// called. Of a key that runs names, something may be left; of every other key of the session nothing is.
//
// The error wraps [ErrDead] when the session is dead or missing: others may take its keys, and nothing is left to keep.
// After any other error the heartbeat may or may not have been written. Call it again.
func Keep(ctx context.Context, db store.Store, session string, runs func(record.Key) bool) error {
	k := standIn{db: db, session: session, writer: driver.WriterID{Session: uuid.NewString()}}
	if err := k.heartbeat(ctx); err != nil {
		return fmt.Errorf("keep session %s: %w", session, err)
	}
	if err := k.free(ctx, runs); err != nil {
		return fmt.Errorf("free keys of session %s: %w", session, err)
	}
	return nil
}

// standIn is one call of [Keep].
type standIn struct {
	db      store.Store
	session string
	writer  driver.WriterID
}

func (k *standIn) next() driver.WriterID {
	k.writer.Seq++
	return k.writer
}

// heartbeat writes the session alive. A write of the process that was under way when it died may come between: then the
// next look shows it.
func (k *standIn) heartbeat(ctx context.Context) error {
	for {
		res, err := k.db.Read(ctx, driver.KindSession, k.session)
		if err != nil {
			return err
		}
		if len(res.Docs) == 0 {
			return fmt.Errorf("its document is missing: %w", ErrDead)
		}
		s, _ := record.SessionFrom(res.Docs[0]) // what else it says is not needed
		if s.State == record.Dead {
			return fmt.Errorf("it is marked dead: %w", ErrDead)
		}
		ifRev, drained := s.Rev, s.State == record.Draining
		s.Rev, s.State, s.Heartbeat = protocol.AliveRev(ifRev, res.Floor), record.Draining, s.Heartbeat+1
		s.WriterID, s.Clock = k.next(), res.Wall
		outs, err := k.db.Apply(ctx, driver.Change{IfRev: ifRev, Doc: s.Doc()})
		switch {
		case err != nil:
			return err
		case outs[0].Status == driver.Unknown:
			return outs[0].Err
		case outs[0].Status != driver.Applied:
			continue
		case drained:
			return nil
		}
		return wakeAll(ctx, k.db) // the others plan without it from now on
	}
}

// free writes those locks of the session without an owner of which nothing runs. A claim that was under way when the
// process died may come later: the next call finds it.
func (k *standIn) free(ctx context.Context, runs func(record.Key) bool) error {
	res, err := k.db.List(ctx, driver.KindLock, driver.Query{Sessions: []string{k.session}})
	if err != nil {
		return err
	}
	var changes []driver.Change
	for _, d := range res.Docs {
		lock, _ := record.LockFrom(d) // who owns it still counts
		if lock.Session != k.session || runs(lock.Key) {
			continue
		}
		ifRev := lock.Rev
		lock.Session, lock.Next, lock.Instance, lock.Since = "", "", "", res.Wall
		lock.Reason, lock.Message = record.ReasonOrphaned, "its process died, and its guard ended the task"
		lock.Rev, lock.WriterID = protocol.NextRev(ifRev, res.Floor), k.next()
		changes = append(changes, driver.Change{IfRev: ifRev, Doc: lock.Doc()})
	}
	if len(changes) == 0 {
		return nil
	}
	outs, err := k.db.Apply(ctx, changes...)
	if err != nil {
		return err
	}
	var errs []error
	raised := map[string]int64{}
	for i, out := range outs {
		if errs = append(errs, out.Err); out.Status == driver.Applied {
			counter := record.CounterOf(record.Key(changes[i].Doc.ID))
			raised[counter] = max(raised[counter], changes[i].Doc.Rev)
		}
	}
	increments := make([]driver.Change, 0, len(raised))
	for counter, rev := range raised {
		if rev > driver.MaxMark {
			rev = 0 // edited manually: no time, and nothing could be created above it
		}
		increments = append(increments, driver.Change{Op: driver.Increment, Doc: driver.Doc{
			Kind: driver.KindGroup, ID: counter, Rev: rev, WriterID: k.next(),
		}})
	}
	if len(increments) > 0 {
		_, err = k.db.Apply(ctx, increments...)
	}
	return errors.Join(append(errs, err)...)
}

// MarkDead marks a session dead, whatever it says now, and has the others look. Only who knows that nothing of the
// session's work is left may call it: a guard whose worker has died. It returns nil once the document is known to say
// dead, also when it was never created. Then it is created as dead, so that a creation still under way cannot land.
// More remote leases than a document holds, a thousand or so, are [driver.ErrTooLarge], and nothing is written: call it
// again with those then left.
func MarkDead(ctx context.Context, db store.Store, dead Session) error {
	session, remote := dead.ID, record.RemoteLeases(dead.Remote)
	if err := (record.Session{Remote: remote}).Validate(); err != nil {
		return fmt.Errorf("mark session %s dead: %w", session, err)
	}
	writer := uuid.NewString()
	for seq := int64(1); ; seq++ {
		res, err := db.Read(ctx, driver.KindSession, session)
		if err != nil {
			return fmt.Errorf("mark session %s dead: read it: %w", session, err)
		}
		s := record.Session{ID: session}
		if len(res.Docs) > 0 {
			if s, _ = record.SessionFrom(res.Docs[0]); s.State == record.Dead {
				return nil
			}
		}
		ifRev := s.Rev
		s.Rev, s.State, s.Remote, s.Died = protocol.DeadRev(ifRev, res.Now), record.Dead, remote, max(res.Wall, 1)
		s.Cause = "its process died, and its guard ended its tasks"
		s.WriterID = driver.WriterID{Session: writer, Seq: seq}
		outs, err := db.Apply(ctx, driver.Change{IfRev: ifRev, Doc: s.Doc()})
		switch {
		case err != nil:
			return fmt.Errorf("mark session %s dead: %w", session, err)
		case outs[0].Status == driver.Applied:
			err := wakeAll(ctx, db)
			noteDeath(ctx, db, s)
			return err
		case outs[0].Status == driver.Unknown:
			return fmt.Errorf("mark session %s dead: %w", session, outs[0].Err)
		}
		time.Sleep(time.Millisecond) // somebody else wrote it just now: look again
	}
}

// noteDeath notes an event, best effort. A session that never was has no name, and there is nothing to say of it.
func noteDeath(ctx context.Context, db store.Store, s record.Session) {
	if s.Instance == "" {
		return
	}
	e := record.Event{Time: s.Died, Type: record.EventDied, From: s.Instance, Message: s.Cause}
	e.ID = record.EventID(s.Died, s.ID, 0)
	id := driver.WriterID{Session: s.WriterID.Session, Seq: s.WriterID.Seq + 1}
	if _, err := db.Apply(ctx, driver.Change{Doc: e.Doc(id)}); err == nil {
		_, _ = db.Apply(ctx, record.EventsWritten())
	}
}

// wakeAll increments every group's counter.
func wakeAll(ctx context.Context, db store.Store) error {
	res, err := db.List(ctx, driver.KindGroup, driver.Query{NoBody: true})
	if err != nil {
		return fmt.Errorf("list groups: %w", err)
	}
	changes := make([]driver.Change, 0, len(res.Docs))
	for _, d := range res.Docs {
		changes = append(changes, driver.Change{Op: driver.Increment, Doc: driver.Doc{Kind: driver.KindGroup, ID: d.ID}})
	}
	if len(changes) == 0 {
		return nil
	}
	_, err = db.Apply(ctx, changes...)
	return err
}
