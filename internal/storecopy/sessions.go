package storecopy

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/shardctl/shardctl/internal/clock"
	"github.com/shardctl/shardctl/internal/protocol"
	"github.com/shardctl/shardctl/internal/record"
	"github.com/shardctl/shardctl/pkg/store/driver"
)

// look is how often sessions are looked at.
const look = 200 * time.Millisecond

// alive lists the sessions of a side that no document says dead, by ID.
func alive(ctx context.Context, at Side) (map[string]record.Session, error) {
	all := map[string]record.Session{}
	for docs, err := range pages(ctx, at, driver.KindSession) {
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

// watch returns the sessions that have not moved for the longest lease of the cluster. One that moves, comes or says
// that it leaves is a cluster that runs. It waits also where there is none: the document of one may have been deleted,
// and its process may run until its lease is over. It waits again, from the beginning, after a gap in which no one
// looked: the store was away, for replicas too, or this process stood still.
func (m *mover) watch(ctx context.Context) (map[string]record.Session, error) {
	first, err := alive(ctx, m.From)
	if err != nil {
		return nil, err
	}
	since := m.Clock.Now() // after the reply arrived
	longest, err := m.longestLease(ctx)
	if err != nil {
		return nil, err
	}
	m.step("%d sessions have not ended: waiting %v for heartbeats", len(first), longest)
	for last := since; m.Clock.Now().KillerElapsed(since) < longest; {
		if err := clock.Sleep(ctx, look); err != nil {
			return nil, err
		}
		now, err := alive(ctx, m.From)
		if err != nil {
			return nil, err
		}
		if err := unmoved(first, now); err != nil {
			return nil, err
		}
		before := last
		// dead, or deleted: then its process may run for one more lease
		if last = m.Clock.Now(); len(now) < len(first) {
			first, since = now, last
		}
		if gap := last.HolderElapsed(before); gap > longest/4 {
			m.step("no answer for %v: waiting %v again", gap.Round(look), longest)
			since = last
		}
	}
	return first, nil
}

// longestLease is that of all who were ever seen: the dead say it too, where a session that stands still does not.
// Where no one says any, it is the default.
func (m *mover) longestLease(ctx context.Context) (time.Duration, error) {
	longest := time.Duration(0)
	for _, kind := range []driver.Kind{driver.KindSession, driver.KindMember} {
		for docs, err := range pages(ctx, m.From, kind) {
			if err != nil {
				return 0, err
			}
			for _, d := range docs {
				longest = max(longest, leaseOf(d))
			}
		}
	}
	return cmp.Or(longest, protocol.DefaultLease), nil
}

// leaseOf is the lease that a session or a member names.
func leaseOf(d driver.Doc) time.Duration {
	if d.Kind == driver.KindMember {
		m, _ := record.MemberFrom(d) // one that cannot be read names none
		return time.Duration(m.LeaseMS) * time.Millisecond
	}
	s, _ := record.SessionFrom(d)
	if s.State == record.Dead {
		return s.Lease
	}
	return cmp.Or(s.Lease, protocol.DefaultLease)
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
	now, err := alive(ctx, m.From)
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
		out, err := applyOne(ctx, m.From, driver.Change{IfRev: ifRev, Doc: s.Doc()})
		switch {
		case err != nil:
			return fmt.Errorf("mark session %s dead: %w", id, err)
		case out.Status != driver.Applied && (out.Doc == nil || out.Doc.State != string(record.Dead)):
			return running(s)
		}
		m.report.Buried = append(m.report.Buried, id)
		m.step("session %s of instance %s is dead: it stood still", id, cmp.Or(s.Instance, "unknown"))
	}
	return nil
}

// nobodyThere refuses a target on which a replica has begun while the source was watched. The target is marked already:
// who is not among its sessions now reads the mark before it claims. What an earlier try has copied is at the source.
func (m *mover) nobodyThere(ctx context.Context) error {
	there, err := alive(ctx, m.To)
	if err != nil || len(there) == 0 {
		return err
	}
	for docs, err := range pages(ctx, m.From, driver.KindSession) {
		if err != nil {
			return err
		}
		for _, d := range docs {
			delete(there, d.ID)
		}
	}
	for _, s := range there {
		return fmt.Errorf(
			"%w: instance %s (session %s) has begun on %s: stop it, give the copy up, and name another database or cluster",
			ErrRefused, cmp.Or(s.Instance, "unknown"), s.ID, m.To.Name,
		)
	}
	return nil
}
