package elect

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/shardctl/shardctl/pkg/elect/protocol"
	"github.com/shardctl/shardctl/pkg/elect/record"
	"github.com/shardctl/shardctl/pkg/store"
)

// MarkDead marks a session dead, whatever it says now, and has the others look. Only who knows that nothing of the
// session's work is left may call it: a guard whose worker has died. remote lists the keys that HTTP endpoints may
// still work on and the milliseconds left. It returns nil once the document is known to say dead, also when it was
// never created. Then it is created as dead, so that a creation still under way cannot land. More remote leases than a
// document holds, a thousand or so, are [store.ErrTooLarge], and nothing is written: call it again with those then
// left.
func MarkDead(ctx context.Context, db store.Store, session string, remote map[Key]int64) error {
	if err := (record.Session{Remote: remote}).Validate(); err != nil {
		return fmt.Errorf("mark session %s dead: %w", session, err)
	}
	writer := uuid.NewString()
	for seq := int64(1); ; seq++ {
		res, err := db.Read(ctx, store.KindSession, session)
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
		s.Rev, s.State, s.Remote, s.Died = protocol.DeadRev(ifRev, res.Now), record.Dead, remote, max(res.Now, 1)
		s.Cause = "its process died, and its guard ended its tasks"
		s.WriterID = store.WriterID{Session: writer, Seq: seq}
		outs, err := db.Apply(ctx, store.Change{IfRev: ifRev, Doc: s.Doc()})
		switch {
		case err != nil:
			return fmt.Errorf("mark session %s dead: %w", session, err)
		case outs[0].Status == store.Applied:
			err := wakeAll(ctx, db)
			noteDeath(ctx, db, s)
			return err
		case outs[0].Status == store.Unknown:
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
	id := store.WriterID{Session: s.WriterID.Session, Seq: s.WriterID.Seq + 1}
	if _, err := db.Apply(ctx, store.Change{Doc: e.Doc(id)}); err == nil {
		_, _ = db.Apply(ctx, record.EventsWritten())
	}
}

// wakeAll increments every group's counter.
func wakeAll(ctx context.Context, db store.Store) error {
	res, err := db.List(ctx, store.KindGroup, store.Query{NoBody: true})
	if err != nil {
		return fmt.Errorf("list groups: %w", err)
	}
	changes := make([]store.Change, 0, len(res.Docs))
	for _, d := range res.Docs {
		changes = append(changes, store.Change{Op: store.Increment, Doc: store.Doc{Kind: store.KindGroup, ID: d.ID}})
	}
	if len(changes) == 0 {
		return nil
	}
	_, err = db.Apply(ctx, changes...)
	return err
}
