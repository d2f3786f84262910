package storecopy

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/shardctl/shardctl/pkg/elect/protocol"
	"github.com/shardctl/shardctl/pkg/elect/record"
	"github.com/shardctl/shardctl/pkg/elect/store"
)

// look is how often sessions are looked at.
const look = 200 * time.Millisecond

// alive lists the sessions of the source that no document says dead, by ID.
func (m *mover) alive(ctx context.Context) (map[string]record.Session, error) {
	all := map[string]record.Session{}
	for docs, err := range pages(ctx, m.From, store.KindSession) {
		if err != nil {
			return nil, err
		}
		for _, d := range docs {
			// A body that cannot be read leaves the state and the heartbeat, which are all that counts here.
			if s, _ := record.SessionFrom(d); s.State != record.Dead {
				all[s.ID] = s
			}
		}
	}
	return all, nil
}

// watch returns the sessions that have not moved for the longest lease of any of them. One that moves, comes or says
// that it leaves is a cluster that runs.
func (m *mover) watch(ctx context.Context) (map[string]record.Session, error) {
	first, err := m.alive(ctx)
	if err != nil || len(first) == 0 {
		return first, err
	}
	since := m.Clock.Now() // after the reply arrived
	longest := protocol.MinLease
	for _, s := range first {
		longest = max(longest, cmp.Or(s.Lease, protocol.DefaultLease))
	}
	m.step("%d sessions have not ended: waiting %v for their heartbeats", len(first), longest)
	for m.Clock.Now().KillerElapsed(since) < longest {
		select {
		case <-time.After(look):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		now, err := m.alive(ctx)
		if err != nil {
			return nil, err
		}
		if err := unmoved(first, now); err != nil {
			return nil, err
		}
	}
	return first, nil
}

// unmoved says whether all of now stand where they stood before.
func unmoved(before, now map[string]record.Session) error {
	for id, s := range now {
		if was, known := before[id]; !known || was.Rev != s.Rev || was.Heartbeat != s.Heartbeat {
			return running(s)
		}
	}
	return nil
}

func running(s record.Session) error {
	return fmt.Errorf(
		"%w: the cluster runs: instance %s (session %s) sends heartbeats: stop all its replicas first", ErrRefused,
		cmp.Or(s.Instance, "unknown"), s.ID,
	)
}

// bury writes the sessions dead that stood still, now that no other can claim. Their processes may only be frozen: a
// heartbeat of theirs is refused from then on.
func (m *mover) bury(ctx context.Context, still map[string]record.Session) error {
	now, err := m.alive(ctx)
	if err != nil {
		return err
	}
	if err := unmoved(still, now); err != nil {
		return err
	}
	for id, s := range now {
		ifRev := s.Rev
		s.Rev, s.State, s.WriterID = protocol.DeadRev(ifRev, m.from.now), record.Dead, m.ids.Next()
		s.Cause, s.Died = "no heartbeat, before the cluster was moved to another store", max(m.from.now, 1)
		out, err := applyOne(ctx, m.From, store.Change{IfRev: ifRev, Doc: s.Doc()})
		switch {
		case err != nil:
			return fmt.Errorf("mark session %s dead: %w", id, err)
		case out.Status != store.Applied && (out.Doc == nil || out.Doc.State != string(record.Dead)):
			return running(s)
		}
		m.report.Buried = append(m.report.Buried, id)
		m.step("session %s of instance %s is dead: it stood still", id, cmp.Or(s.Instance, "unknown"))
	}
	return nil
}
