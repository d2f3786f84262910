package liveness_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/shardctl/shardctl/pkg/elect/internal/clocktest"
	"github.com/shardctl/shardctl/pkg/elect/internal/liveness"
	"github.com/shardctl/shardctl/pkg/elect/protocol"
	"github.com/shardctl/shardctl/pkg/elect/record"
)

const lease = clocktest.Lease

// world is one process's view of the others, and the time.
type world struct {
	*liveness.Peers
	p   protocol.Params
	now time.Duration
	own protocol.Session
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{p: clocktest.Params(t)}
	w.Peers = liveness.New(w.p, w.at(), nil)
	w.Begin(&record.WriterIDs{Session: "me"})
	return w
}

func (w *world) at() protocol.Instant { return clocktest.At(w.now) }

func (w *world) moment() protocol.Moment { return clocktest.Moment(w.now) }

// round lets one look's time pass. all and some answer the looks; nil: the look fails.
func (w *world) round(all, some []record.Session) liveness.Ready {
	w.now += w.p.Observe
	w.Tick(w.own, 0, w.moment())
	r := w.Ready()
	if r.Look == nil {
		return r
	}
	answer := some
	if r.Look.All {
		answer = all
	}
	w.Looked(answer, answer != nil, w.at(), w.moment())
	w.Tick(w.own, 0, w.moment())
	more := w.Ready()
	r.Kills = append(r.Kills, more.Kills...)
	return r
}

func session(id string, heartbeat int64) record.Session {
	return record.Session{
		ID: id, Rev: 2 * heartbeat, Heartbeat: heartbeat, State: record.Live, Lease: lease, Instance: id,
	}
}

func TestASilentSessionIsMarkedDeadAfterT(t *testing.T) {
	w := newWorld(t)
	silent := []record.Session{session("b", 3)}
	for w.now < lease {
		if r := w.round(silent, silent); len(r.Kills) > 0 {
			t.Fatalf("after %v: %+v", w.now, r.Kills)
		}
	}
	killed := false
	for w.now < lease+2*w.p.Observe && !killed {
		r := w.round(silent, silent)
		killed = len(r.Kills) == 1 && r.Kills[0].Session == "b" && r.Kills[0].Change.IfRev == 6 &&
			r.Kills[0].Change.Doc.Rev%2 == 1
	}
	if !killed {
		t.Fatal("not marked dead at an odd revision over the one that was seen")
	}
	w.Answered("b", protocol.Applied, w.moment())
	if !w.All.Dead("b") || !w.Freed("b", "g/k", w.moment()) {
		t.Error("its keys are not free")
	}
}

// A full look that fails counts as none. Above 64 sessions the neighbours are looked at all the time and the others
// every T/2. Those whose looks fail must not be judged by what was seen long ago.
func TestOnlyWatchedSessionsAreJudged(t *testing.T) {
	w := newWorld(t)
	var all []record.Session
	for i := range 100 {
		all = append(all, session(fmt.Sprintf("s%03d", i), 1))
	}
	w.round(all, nil)
	for w.now < 3*lease {
		heartbeat := int64(w.now / w.p.Heartbeat)
		var some []record.Session
		for _, s := range all[:8] {
			some = append(some, session(s.ID, 2+heartbeat))
		}
		if r := w.round(nil, some); len(r.Kills) > 0 {
			t.Fatalf(
				"after %v: %d sessions are to be marked dead that were not looked at, %s first", w.now, len(r.Kills),
				r.Kills[0].Session,
			)
		}
	}
}

func TestAnOwnOutageMakesAllAgesStartAgain(t *testing.T) {
	w := newWorld(t)
	silent := []record.Session{session("b", 3)}
	w.round(silent, silent)
	for w.now < lease+lease/2 {
		if r := w.round(nil, nil); len(r.Kills) > 0 {
			t.Fatalf("after %v of an outage: %+v", w.now, r.Kills)
		}
	}
	if r := w.round(silent, silent); len(r.Kills) > 0 {
		t.Fatalf("at the first success after the outage: %+v", r.Kills)
	}
	if w.Reach.SinceOutage(w.at()) < 0 {
		t.Error("the outage is not known")
	}
}

func TestPredecessorsEndOnceTheOwnSessionIsShown(t *testing.T) {
	w := newWorld(t)
	w.Peers = liveness.New(
		w.p, w.at(), []liveness.Predecessor{{Session: "old", Remote: map[record.Key]int64{"g/k": 5000}}},
	)
	w.Begin(&record.WriterIDs{Session: "me"})
	old := session("old", 7)
	w.See(&old, true, w.at(), w.moment())
	w.EndPredecessors(false, w.moment())
	if r := w.Ready(); len(r.Kills) > 0 {
		t.Fatal("before the own session can be read")
	}
	w.EndPredecessors(true, w.moment())
	w.now += 2 * w.p.Observe
	w.EndPredecessors(true, w.moment())
	r := w.Ready()
	if len(r.Kills) != 1 {
		t.Fatalf("%+v", r)
	}
	s, err := record.SessionFrom(r.Kills[0].Change.Doc)
	if err != nil || s.Remote["g/k"] != 5000 {
		t.Errorf("%+v, %v: want the remote leases in it", s, err)
	}
	w.Answered("old", protocol.Applied, w.moment())
	if w.Freed("old", "g/k", w.moment()) {
		t.Error("a key under a remote lease is free")
	}
	w.EndPredecessors(true, w.moment())
	if r := w.Ready(); len(r.Over) != 1 {
		t.Errorf("the guard does not hear of it: %+v", r)
	}
}
