package engine

import (
	"slices"
	"time"

	"github.com/shardctl/shardctl/internal/protocol"
	"github.com/shardctl/shardctl/internal/record"
	"github.com/shardctl/shardctl/pkg/store/driver"
)

// Mutexes holds the mutexes of one process. It is not safe for concurrent use.
type Mutexes struct {
	All localMutexes

	p      protocol.Params
	ids    *record.WriterIDs // of the session; nil before the first
	timers mutexTimers
	out    *Effects
}

// maxIdleMutexes is how many unused mutexes are kept. The next call for one of them needs no read.
const maxIdleMutexes = 1000

// newMutexes is an empty table.
func newMutexes(out *Effects, p protocol.Params) *Mutexes {
	timers := mutexTimers{retry: p.Retry, timed: map[string]*localMutex{}}
	return &Mutexes{out: out, p: p, All: localMutexes{byID: map[string]*localMutex{}}, timers: timers}
}

// prepare makes the changes of these mutexes that are about to be sent. One whose write is no longer wanted is left
// out.
func (t *Mutexes) prepare(ids []string, m protocol.Moment) []driver.Change {
	changes := make([]driver.Change, 0, len(ids))
	for _, id := range ids {
		x := t.All.byID[id]
		if x == nil || !x.m.Write.Sent {
			continue
		}
		if w := x.m.Write; w.Seq != x.seq || x.change.Doc.WriterID.Session != t.ids.Session {
			x.m = x.m.WithClock(m.Rev).Dated(m.Clock) // a long queue must not make it look old
			x.seq, w = w.Seq, x.m.Write
			x.change = driver.Change{
				IfRev: w.IfRev, Doc: record.MutexDoc(id, w.Doc, t.ids.Next(), m.Clock),
			}
			if w.Enter {
				x.change.Claim = t.p.T
			}
		}
		changes = append(changes, x.change)
	}
	return changes
}

func (t *Mutexes) get(id string) *localMutex {
	x := t.All.byID[id]
	if x == nil {
		x = &localMutex{id: id}
		if t.ids != nil {
			x.m.Session = t.ids.Session
		}
		t.All.add(x)
	}
	return x
}

// step feeds one machine and notes what it wants done.
func (t *Mutexes) step(x *localMutex, ev protocol.MutexEvent, m protocol.Moment) {
	var acts []protocol.MutexAction
	x.m, acts = x.m.Step(ev, m)
	for _, a := range acts {
		t.act(x, a)
	}
	if !x.m.Write.Under {
		x.unwritten = nil
	}
	t.All.stepped(x)
	if x.idle && (x.m.Doc.Rev == 0 || t.All.idle() > maxIdleMutexes) {
		t.forget(x)
		return
	}
	t.timers.schedule(x, m)
}

// forget drops a mutex that is idle.
func (t *Mutexes) forget(x *localMutex) {
	delete(t.All.byID, x.id)
	delete(t.timers.timed, x.id)
}

func (t *Mutexes) act(x *localMutex, a protocol.MutexAction) {
	switch a.Kind {
	case protocol.WriteMutex:
		if was := x.m.Doc.Hold; a.Seq != x.seq && a.Doc.Hold.Same(was) && a.Doc.Hold.UntilMs < was.UntilMs {
			t.out.add(holdSetRight{x.id, was.UntilMs})
		}
		t.out.add(mutexWrite{x.id})
	case protocol.ReadMutex:
		t.out.add(mutexRead{x.id})
	case protocol.WantSession:
		t.out.add(wantSession{a.Session})
	case protocol.MutexGranted, protocol.MutexRefused, protocol.MutexLost, protocol.MutexDone:
		r := MutexResult{ID: x.id, Claim: a.Claim, Kind: a.Kind, Token: a.Token, Slot: a.Slot, Reason: a.Reason}
		if a.Kind == protocol.MutexGranted {
			r.Session = t.ids.Session
		}
		if a.Reason == protocol.MutexUnwritable {
			r.Err = x.unwritten
		}
		t.out.add(r)
	}
}

// begin makes the table act on behalf of a new session. What the one before held is lost; who waits keeps the place.
func (t *Mutexes) begin(ids *record.WriterIDs, m protocol.Moment) {
	t.ids = ids
	t.each(protocol.MutexEvent{Kind: protocol.MutexRenamed, Session: ids.Session}, m)
}

// Ask lets a call wait for a mutex. No two calls of any process have one claim.
func (t *Mutexes) Ask(id, claim string, ask protocol.MutexRequest, m protocol.Moment) {
	t.step(t.get(id), protocol.MutexEvent{Kind: protocol.MutexAsked, Claim: claim, Request: ask}, m)
}

// GiveUp says that a call waits no more. One that was granted meanwhile is released.
func (t *Mutexes) GiveUp(id, claim string, m protocol.Moment) {
	t.leave(id, protocol.MutexEvent{Kind: protocol.MutexGaveUp, Claim: claim}, m)
}

// Release says that a holder is done. The store is to keep the mutex for another detached; 0: not at all.
func (t *Mutexes) Release(id, claim string, detached time.Duration, m protocol.Moment) {
	ev := protocol.MutexEvent{Kind: protocol.MutexReleased, Claim: claim}
	if d := detached.Milliseconds(); detached > 0 {
		ev.Kind, ev.Keep = protocol.MutexDetached, protocol.MutexHold{UntilMs: m.Clock + d, ForMs: d}
	}
	t.leave(id, ev, m)
}

func (t *Mutexes) leave(id string, ev protocol.MutexEvent, m protocol.Moment) {
	if x := t.All.byID[id]; x != nil {
		t.step(x, ev, m)
	} else if ev.Kind != protocol.MutexGaveUp {
		t.out.add(MutexResult{ID: id, Claim: ev.Claim, Kind: protocol.MutexDone})
	}
}

// found takes the answer to a read.
func (t *Mutexes) found(f mutexFound, m protocol.Moment) {
	x := t.All.byID[f.ID]
	if x == nil {
		return
	}
	x.unread = f.Err
	if f.Err != nil {
		t.step(x, protocol.MutexEvent{Kind: protocol.MutexUnread}, m)
		t.refuse(x, f.Err, m)
	} else {
		ev := protocol.MutexEvent{Kind: protocol.MutexFound, Sure: true, Doc: f.Doc}
		if f.Doc.Rev == 0 {
			ev.Floor = f.Mark + 1
		}
		t.step(x, ev, m)
	}
}

// notified takes a notification; doc is nil where it shows none. A mutex that is reserved for this session, and that no
// call here waits for, is declined.
func (t *Mutexes) notified(id string, doc *protocol.MutexDoc, m protocol.Moment) {
	x := t.All.byID[id]
	if t.ids == nil || x == nil && doc != nil && doc.Next != t.ids.Session {
		return
	}
	if x != nil && doc != nil && x.m.Known {
		t.step(x, protocol.MutexEvent{Kind: protocol.MutexFound, Doc: *doc}, m)
		return
	}
	t.step(t.get(id), protocol.MutexEvent{Kind: protocol.MutexLook}, m)
}

// answered takes the outcome of a change that prepare made. doc is what a refusal found; nil: no document.
func (t *Mutexes) answered(c driver.Change, out driver.Outcome, doc *protocol.MutexDoc, m protocol.Moment) {
	x := t.All.byID[c.Doc.ID]
	if x == nil || x.change.Doc.WriterID != c.Doc.WriterID {
		return
	}
	ev := protocol.MutexEvent{Kind: protocol.MutexAnswered, Seq: x.seq, Status: record.StatusOf(out)}
	if doc != nil {
		ev.Doc = *doc
	}
	if x.unwritten = out.Err; out.Err == nil {
		x.unread = nil // the answer shows the document
	}
	t.step(x, ev, m)
	t.refuse(x, out.Err, m)
}

// refuseAll ends the calls that wait for any mutex when the store refuses the own session for good: nobody enters
// without one.
func (t *Mutexes) refuseAll(err error, m protocol.Moment) {
	for _, x := range t.All.sorted() {
		t.refuse(x, err, m)
	}
}

// refuse ends the calls that wait for a mutex when the store refuses for good. Those that hold it go on: what is
// written may be repaired before their lease is over.
func (t *Mutexes) refuse(x *localMutex, err error, m protocol.Moment) {
	if !driver.Lasting(err) {
		return
	}
	for _, c := range slices.Clone(x.m.Calls) {
		if c.Phase == protocol.CallWaiting {
			t.out.add(MutexResult{ID: x.id, Claim: c.Claim, Kind: protocol.MutexRefused, Err: err})
			t.step(x, protocol.MutexEvent{Kind: protocol.MutexGaveUp, Claim: c.Claim}, m)
		}
	}
}

// seen says to the mutexes that asked whether a session is known to be dead.
func (t *Mutexes) seen(session string, dead bool, m protocol.Moment) {
	ev := protocol.MutexEvent{Kind: protocol.MutexAlive, Session: session}
	if dead {
		ev.Kind = protocol.MutexDied
	}
	for _, x := range t.All.sorted() {
		if slices.Contains(x.m.Sessions.Wanted, session) {
			t.step(x, ev, m)
		}
	}
}

// expire says that D has come, or that the session is lost: no hold can be trusted any more.
func (t *Mutexes) expire(m protocol.Moment) {
	t.each(protocol.MutexEvent{Kind: protocol.MutexExpired}, m)
}

// resume says that the lease is valid again.
func (t *Mutexes) resume(m protocol.Moment) {
	t.each(protocol.MutexEvent{Kind: protocol.MutexTicked}, m)
}

// lineageChanged says that the store follows another lineage. What is held here is read and compared.
func (t *Mutexes) lineageChanged(m protocol.Moment) {
	for _, x := range t.All.sorted() {
		if x.idle {
			t.forget(x)
		}
	}
	t.each(protocol.MutexEvent{Kind: protocol.MutexLineageChanged}, m)
}

// forgive forgets what the store has refused: it is tried again before this process stops.
func (t *Mutexes) forgive() {
	for _, x := range t.All.byID {
		x.unwritten, x.unread = nil, nil
	}
}

// close gives up every call that waits, and says of every hold that it is to end. No one gets the mutex before its
// release: see end.
func (t *Mutexes) close(m protocol.Moment) {
	for _, x := range t.All.sorted() {
		for _, c := range slices.Clone(x.m.Calls) {
			r := MutexResult{ID: x.id, Claim: c.Claim, Kind: protocol.MutexLost, Closed: true}
			switch c.Phase {
			case protocol.CallWaiting:
				r.Kind = protocol.MutexRefused
				t.out.add(r)
				t.step(x, protocol.MutexEvent{Kind: protocol.MutexGaveUp, Claim: c.Claim}, m)
			case protocol.CallHolding:
				t.out.add(r)
			case protocol.CallLost, protocol.CallLeaving:
			}
		}
	}
}

// end releases what was not released in time after Close.
func (t *Mutexes) end(m protocol.Moment) {
	for _, x := range t.All.sorted() {
		for _, c := range slices.Clone(x.m.Calls) {
			if c.Phase == protocol.CallHolding || c.Phase == protocol.CallLost {
				t.step(x, protocol.MutexEvent{Kind: protocol.MutexReleased, Claim: c.Claim}, m)
			}
		}
	}
}

// each feeds an event to every mutex that is used.
func (t *Mutexes) each(ev protocol.MutexEvent, m protocol.Moment) {
	for _, x := range t.All.sorted() {
		t.step(x, ev, m)
	}
}

// tick lets time pass.
func (t *Mutexes) tick(m protocol.Moment) {
	for _, x := range t.timers.due(m.Now) {
		if x.idle {
			t.forget(x)
			continue
		}
		if x.timer.retrying && m.Now.Reached(x.timer.retry, 0) {
			x.timer.retrying = false
		}
		ev := protocol.MutexEvent{Kind: protocol.MutexTicked}
		if x.timer.looking && m.Now.Reached(x.timer.look, 0) && !x.m.Write.Under && !x.m.Unread {
			x.timer.look = m.Now.Add(t.timers.nextLook(&x.timer))
			ev.Kind = protocol.MutexLook
		}
		t.step(x, ev, m)
	}
}

// watching says whether the store's notifications are heard. Where they begin, each mutex that a call waits for is
// looked at: it may have changed before.
func (t *Mutexes) watching(yes bool, m protocol.Moment) {
	t.timers.watching = yes
	for _, x := range t.All.sorted() {
		switch {
		case x.idle:
			t.forget(x)
		case x.waits():
			x.timer.looking = false
			t.step(x, protocol.MutexEvent{Kind: protocol.MutexLook}, m)
		}
	}
}
