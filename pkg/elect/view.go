package elect

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/shardctl/shardctl/pkg/elect/protocol"
	"github.com/shardctl/shardctl/pkg/elect/record"
)

// View is what an elector knows of the cluster: a snapshot that nobody changes. It may be stale.
type View struct {
	Session  string // this process's session
	Instance string
	Open     bool // the session is acknowledged and the lease valid
	Draining bool
	Loaded   bool          // members and the locks of all tracked groups have been read at least once
	Forgot   bool          // within the last hour the store showed the own session below a revision it had acknowledged
	Stale    bool          // own reads or beats have failed for longer than T/4
	Now      int64         // the store's clock when the view was made, Unix ms
	Outage   time.Duration // time since the last outage of the store ended; negative: none yet
	Sessions []SessionView // in order of instance and session, this process's included
	Locks    map[Key]Lock  // of the tracked groups
	Held     map[Key]Held
	Wishes   []Wish
}

// SessionView is one session in a View.
type SessionView struct {
	ID      string
	State   SessionState
	Member  Member        // zero until it has been read
	Known   bool          // Member has been read
	Age     time.Duration // since its newest beat was first seen here, when the view was made: see [Elector.Ages]
	Granted map[Key]int64
}

// Held is one key in this process.
type Held struct {
	Phase  protocol.KeyPhase
	Token  int64
	GiveUp bool
	Next   string // with GiveUp: the session it will be reserved for
}

// View returns the newest snapshot. It is cheap: the snapshot is shared.
func (e *Elector) View() *View { return e.view.Load() }

// Changed returns a channel that is closed when a newer View than the present one is there.
func (e *Elector) Changed() <-chan struct{} { return e.viewWake.wait() }

// Ages tells how long ago each session's newest beat was first seen here. Beats alone make no new View.
func (e *Elector) Ages(ctx context.Context) (map[string]time.Duration, error) {
	ages := map[string]time.Duration{}
	err := e.ask(ctx, func() {
		now := e.clock.Now()
		ages[e.loop.session.id] = now.HolderElapsed(e.loop.session.m.Acked)
		for id, q := range e.loop.peers {
			ages[id] = now.HolderElapsed(q.last)
		}
	})
	if err != nil {
		return nil, err // the loop may still be at it
	}
	return ages, nil
}

// publish makes a new view when something changed.
func (e *Elector) publish(now protocol.Instant) {
	l := &e.loop
	stale, draining := e.away(now), e.draining(now)
	last := e.view.Load()
	if !l.viewDirty && stale == last.Stale && draining == last.Draining || !now.Reached(l.published, e.publishGap()) {
		return
	}
	if stale != e.view.Load().Stale {
		e.log.Info("Whether the store answers has changed", "reachable", !stale)
	}
	l.viewDirty, l.published = false, now
	v := &View{
		Session: l.session.id, Instance: l.session.member.Instance,
		Open: l.session.m.Valid(e.p, now), Draining: draining,
		Loaded: l.mirror.loaded, Stale: stale, Forgot: l.forgot && !now.Reached(l.forgotAt, forgotFor),
		Now: e.storeNow(), Outage: -1,
		Locks: e.lockViews(), Held: make(map[Key]Held, len(l.keys)),
		Wishes: l.mirror.wishes, Sessions: e.sessionViews(now),
	}
	if l.outageEnd != (protocol.Instant{}) {
		v.Outage = now.HolderElapsed(l.outageEnd)
	}
	for key, h := range l.keys {
		v.Held[key] = Held{Phase: h.m.Phase, Token: h.m.Token, GiveUp: h.m.GiveUp, Next: h.next}
	}
	e.view.Store(v)
	e.viewWake.wake()
}

// draining says whether keys may be given away for a drain. Others must know of it first: to one that sees a key leave
// and does not know why, the giver looks as if it had room. A store that does not take the word in time is not waited for.
func (e *Elector) draining(now protocol.Instant) bool {
	l := &e.loop
	return l.closing || l.drain && (l.session.m.SaysDrn || now.Reached(l.drainAt, e.p.Retry))
}

// publishGap is the least time between two views: copying many locks is not free.
func (e *Elector) publishGap() time.Duration {
	n := 0
	for _, g := range e.loop.mirror.groups {
		n += len(g.locks)
	}
	return time.Millisecond + time.Duration(n)*2*time.Microsecond
}

// lockViews copies the locks for a view, or shares the last view's copy when none has changed since.
func (e *Elector) lockViews() map[Key]Lock {
	if !e.loop.locksDirty {
		return e.view.Load().Locks
	}
	e.loop.locksDirty = false
	groups := e.loop.mirror.groups
	if len(groups) == 1 {
		for _, g := range groups {
			return maps.Clone(g.locks)
		}
	}
	all := map[Key]Lock{}
	for _, g := range groups {
		maps.Copy(all, g.locks)
	}
	return all
}

func (e *Elector) sessionViews(now protocol.Instant) []SessionView {
	l := &e.loop
	own := SessionView{ID: l.session.id, State: Live, Member: l.session.member, Known: true, Age: now.HolderElapsed(l.session.m.Acked)}
	switch {
	case l.session.m.Phase > protocol.Open:
		own.State = Dead
	case e.draining(now):
		own.State = Draining
	}
	views := []SessionView{own}
	for id, q := range l.peers {
		if !q.m.Known || q.m.Gone {
			continue
		}
		member, known := l.mirror.members[id]
		if !known {
			member.Instance = q.doc.Instance
		}
		views = append(views, SessionView{
			ID: id, State: record.StateName(q.m.State), Member: member, Known: known,
			Age: now.HolderElapsed(q.last), Granted: q.doc.Remote,
		})
	}
	slices.SortFunc(views, func(a, b SessionView) int {
		if a.Member.Instance != b.Member.Instance {
			if a.Member.Instance < b.Member.Instance {
				return -1
			}
			return 1
		}
		if a.ID < b.ID {
			return -1
		}
		return 1
	})
	return views
}
