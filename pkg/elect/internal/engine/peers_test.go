package engine

import (
	"fmt"
	"testing"
	"time"

	"github.com/shardctl/shardctl/internal/protocol"
	"github.com/shardctl/shardctl/internal/record"
)

// peersWorld is one process's view of the others, and the time.
type peersWorld struct {
	*Peers
	p   protocol.Params
	now time.Duration
	own protocol.Session
}

func newPeersWorld(t *testing.T) *peersWorld {
	t.Helper()
	w := &peersWorld{p: testParams(t)}
	w.Peers = NewPeers(&Effects{}, w.p, w.at(), nil)
	w.Begin(&record.WriterIDs{Session: "me"})
	return w
}

func (w *peersWorld) at() protocol.Instant { return testAt(w.now) }

func (w *peersWorld) moment() protocol.Moment { return testMoment(w.now) }

// round lets one look's time pass. all and some answer the looks; nil: the look fails.
func (w *peersWorld) round(all, some []record.Session) taken {
	w.now += w.p.Observe
	w.Tick(w.own, 0, w.moment())
	r := takeFrom(w.out)
	polls := of[SessionPoll](r)
	if len(polls) == 0 {
		return r
	}
	answer := some
	if polls[0].All {
		answer = all
	}
	w.Polled(answer, answer != nil, w.at(), w.moment())
	w.Tick(w.own, 0, w.moment())
	more := takeFrom(w.out)
	r.effects = append(r.effects, more.effects...)
	return r
}

func otherSession(id string, heartbeat int64) record.Session {
	return record.Session{
		ID: id, Rev: 2 * heartbeat, Heartbeat: heartbeat, State: record.Live, Lease: testLease, Instance: id,
	}
}

func TestASilentSessionIsMarkedDeadAfterT(t *testing.T) {
	w := newPeersWorld(t)
	silent := []record.Session{otherSession("b", 3)}
	for w.now < testLease {
		if r := w.round(silent, silent); len(of[killSession](r)) > 0 {
			t.Fatalf("after %v: %+v", w.now, of[killSession](r))
		}
	}
	killed := false
	for w.now < testLease+2*w.p.Observe && !killed {
		r := w.round(silent, silent)
		kills := of[killSession](r)
		killed = len(kills) == 1 && kills[0].session == "b" && kills[0].change.IfRev == 6 &&
			kills[0].change.Doc.Rev%2 == 1
	}
	if !killed {
		t.Fatal("not marked dead at an odd revision over the one that was seen")
	}
	w.Answered("b", protocol.Applied, w.moment())
	if !w.All.Dead("b") || !w.Orphaned("b", "g/k", w.moment()) {
		t.Error("its keys are not free")
	}
}

// A key under a remote lease is free when that ends. Nothing else changes then, and those who claim wait for a change.
func TestTheEndOfARemoteLeaseIsAChange(t *testing.T) {
	w := newPeersWorld(t)
	dead := otherSession("b", 3)
	dead.State, dead.Remote = record.Dead, map[record.Key]int64{"g/soon": 1000, "g/late": 2000}
	w.See(&dead, true, w.at(), w.moment())
	w.Tick(w.own, 0, w.moment())
	w.out.changes = Changes{}
	var changed []time.Duration
	for w.now < 3*time.Second {
		w.now += w.p.Wake
		w.Tick(w.own, 0, w.moment())
		if w.out.changes.View {
			changed = append(changed, w.now)
		}
		w.out.changes = Changes{}
		if free := w.Orphaned("b", "g/soon", w.moment()); free != (len(changed) > 0) {
			t.Fatalf("%v after the death: free %v, changes at %v", w.now, free, changed)
		}
		if free := w.Orphaned("b", "g/late", w.moment()); free != (len(changed) > 1) {
			t.Fatalf("%v after the death: free %v, changes at %v", w.now, free, changed)
		}
	}
	if len(changed) != 2 {
		t.Errorf("changes at %v, want one at the end of each remote lease", changed)
	}
}

// A look for all that fails counts as none. With many sessions the neighbours are looked at all the time and the others
// now and then. Those whose looks fail must not be judged by what was seen long ago.
func TestOnlyWatchedSessionsAreJudged(t *testing.T) {
	w := newPeersWorld(t)
	var all []record.Session
	for i := range 100 {
		all = append(all, otherSession(fmt.Sprintf("s%03d", i), 1))
	}
	w.round(all, nil)
	for w.now < 3*testLease {
		heartbeat := int64(w.now / w.p.Heartbeat)
		var some []record.Session
		for _, s := range all[:8] {
			some = append(some, otherSession(s.ID, 2+heartbeat))
		}
		if r := w.round(nil, some); len(of[killSession](r)) > 0 {
			t.Fatalf(
				"after %v: %d sessions are to be marked dead that were not looked at, %s first", w.now, len(of[killSession](r)),
				of[killSession](r)[0].session,
			)
		}
	}
}

func TestAnOwnOutageMakesAllAgesStartAgain(t *testing.T) {
	w := newPeersWorld(t)
	silent := []record.Session{otherSession("b", 3)}
	w.round(silent, silent)
	for w.now < testLease+testLease/2 {
		if r := w.round(nil, nil); len(of[killSession](r)) > 0 {
			t.Fatalf("after %v of an outage: %+v", w.now, of[killSession](r))
		}
	}
	if r := w.round(silent, silent); len(of[killSession](r)) > 0 {
		t.Fatalf("at the first success after the outage: %+v", of[killSession](r))
	}
	if w.Connectivity.SinceOutage(w.at()) < 0 {
		t.Error("the outage is not known")
	}
}

func TestPredecessorsEndOnceTheOwnSessionIsShown(t *testing.T) {
	w := newPeersWorld(t)
	w.Peers = NewPeers(
		&Effects{}, w.p, w.at(), []record.Session{{ID: "old", Remote: map[record.Key]int64{"g/k": 5000, "g/over": 1}}},
	)
	began := w.now
	w.Begin(&record.WriterIDs{Session: "me"})
	old := otherSession("old", 7)
	w.See(&old, true, w.at(), w.moment())
	w.EndPredecessors(false, w.moment())
	if r := takeFrom(w.out); len(of[killSession](r)) > 0 {
		t.Fatal("before the own session can be read")
	}
	w.EndPredecessors(true, w.moment())
	w.now += 2 * w.p.Observe
	w.EndPredecessors(true, w.moment())
	r := takeFrom(w.out)
	if len(of[killSession](r)) != 1 {
		t.Fatalf("%+v", r)
	}
	s, err := record.SessionFrom(of[killSession](r)[0].change.Doc)
	if left := 5000 - (w.now - began).Milliseconds(); err != nil || s.Remote["g/k"] != left || len(s.Remote) != 1 {
		t.Errorf("%+v, %v: want what is left of the remote leases in it, %d ms", s, err, left)
	}
	w.Answered("old", protocol.Applied, w.moment())
	if w.Orphaned("old", "g/k", w.moment()) {
		t.Error("a key under a remote lease is free")
	}
	w.EndPredecessors(true, w.moment())
	if r := takeFrom(w.out); len(of[predecessorEnded](r)) != 1 {
		t.Errorf("the guard does not hear of it: %+v", r)
	}
}
