package mutexes

import (
	"slices"
	"time"

	"github.com/shardctl/shardctl/pkg/elect/protocol"
	"github.com/shardctl/shardctl/pkg/elect/record"
)

// Begin makes the table act on behalf of a new session. What the one before held is lost; who waits keeps the place.
func (t *Table) Begin(ids *record.WriterIDs, m protocol.Moment) {
	t.ids = ids
	t.each(protocol.MutexEvent{Kind: protocol.MutexRenamed, Session: ids.Session}, m)
}

// Ask lets a call wait for a mutex. No two calls of any process have one claim.
func (t *Table) Ask(id, claim string, ask protocol.MutexAsk, m protocol.Moment) {
	t.step(t.get(id), protocol.MutexEvent{Kind: protocol.MutexAsked, Claim: claim, Ask: ask}, m)
}

// Behind says whether the store has shown, since a call asked, that others are before it.
func (t *Table) Behind(id, claim string) bool {
	x := t.all[id]
	return x != nil && x.m.Behind(claim)
}

// GiveUp says that a call waits no more. One that was granted meanwhile is released.
func (t *Table) GiveUp(id, claim string, m protocol.Moment) {
	t.leave(id, protocol.MutexEvent{Kind: protocol.MutexGaveUp, Claim: claim}, m)
}

// Release says that a holder is done.
func (t *Table) Release(id, claim string, m protocol.Moment) {
	t.leave(id, protocol.MutexEvent{Kind: protocol.MutexReleased, Claim: claim}, m)
}

// Detach says that a holder is done, and has the mutex kept for so long.
func (t *Table) Detach(id, claim string, d time.Duration, m protocol.Moment) {
	keep := protocol.MutexHold{UntilMs: m.Clock + d.Milliseconds(), ForMs: d.Milliseconds()}
	t.leave(id, protocol.MutexEvent{Kind: protocol.MutexDetached, Claim: claim, Keep: keep}, m)
}

func (t *Table) leave(id string, ev protocol.MutexEvent, m protocol.Moment) {
	if x := t.all[id]; x != nil {
		t.step(x, ev, m)
	} else if ev.Kind != protocol.MutexGaveUp {
		t.out.Results = append(t.out.Results, Result{ID: id, Claim: ev.Claim, Kind: protocol.MutexDone})
	}
}

// Found takes the answer to a read.
func (t *Table) Found(f Found, m protocol.Moment) {
	x := t.all[f.ID]
	switch {
	case x == nil:
	case !f.OK:
		t.step(x, protocol.MutexEvent{Kind: protocol.MutexUnread}, m)
	default:
		ev := protocol.MutexEvent{Kind: protocol.MutexFound, Sure: true, Doc: f.Doc}
		if f.Doc.Rev == 0 {
			ev.Floor = f.Mark + 1
		}
		t.step(x, ev, m)
	}
}

// Notified takes a notification; doc is nil where it shows none. A mutex that is reserved for this session, and that no
// call here waits for, is declined.
func (t *Table) Notified(id string, doc *protocol.MutexDoc, m protocol.Moment) {
	x := t.all[id]
	if t.ids == nil || x == nil && doc != nil && doc.Next != t.ids.Session {
		return
	}
	if x != nil && doc != nil && x.m.Known {
		t.step(x, protocol.MutexEvent{Kind: protocol.MutexFound, Doc: *doc}, m)
		return
	}
	t.step(t.get(id), protocol.MutexEvent{Kind: protocol.MutexLook}, m)
}

// Answered takes the outcome of a write. doc is what a refusal found; nil: no document.
func (t *Table) Answered(id string, seq int64, status protocol.Status, doc *protocol.MutexDoc, m protocol.Moment) {
	x := t.all[id]
	if x == nil {
		return
	}
	ev := protocol.MutexEvent{Kind: protocol.MutexAnswered, Seq: seq, Status: status}
	if doc != nil {
		ev.Doc = *doc
	}
	t.step(x, ev, m)
}

// Seq is the number of the write of a mutex that was prepared last.
func (t *Table) Seq(id string) int64 {
	if x := t.all[id]; x != nil {
		return x.seq
	}
	return 0
}

// Died says that a session is known to be dead.
func (t *Table) Died(session string, m protocol.Moment) {
	t.wanted(protocol.MutexEvent{Kind: protocol.MutexDied, Session: session}, m)
}

// Alive says that a session was seen, and is not known to be dead.
func (t *Table) Alive(session string, m protocol.Moment) {
	t.wanted(protocol.MutexEvent{Kind: protocol.MutexAlive, Session: session}, m)
}

// wanted feeds what is known of a session to the mutexes that asked for it.
func (t *Table) wanted(ev protocol.MutexEvent, m protocol.Moment) {
	for _, x := range sorted(t.all) {
		if slices.Contains(x.m.Wanted, ev.Session) {
			t.step(x, ev, m)
		}
	}
}

// Expire says that D has come, or that the session is lost: no hold can be trusted any more.
func (t *Table) Expire(m protocol.Moment) {
	t.each(protocol.MutexEvent{Kind: protocol.MutexExpired}, m)
}

// Resume says that the lease is valid again.
func (t *Table) Resume(m protocol.Moment) { t.each(protocol.MutexEvent{Kind: protocol.MutexTicked}, m) }

// Doubt says that the store follows another course of writes. What is held here is read and compared.
func (t *Table) Doubt(m protocol.Moment) {
	for _, x := range sorted(t.all) {
		if x.idle {
			t.forget(x)
		}
	}
	t.each(protocol.MutexEvent{Kind: protocol.MutexDoubted}, m)
}

// Close gives up every call that waits, and says of every hold that it is to end. Nobody gets the mutex before its
// release: see [Table.End].
func (t *Table) Close(m protocol.Moment) {
	for _, x := range sorted(t.all) {
		for _, c := range slices.Clone(x.m.Calls) {
			r := Result{ID: x.id, Claim: c.Claim, Kind: protocol.MutexLost, Closed: true}
			switch c.Phase {
			case protocol.CallWaiting:
				r.Kind = protocol.MutexRefused
				t.out.Results = append(t.out.Results, r)
				t.step(x, protocol.MutexEvent{Kind: protocol.MutexGaveUp, Claim: c.Claim}, m)
			case protocol.CallHolding:
				t.out.Results = append(t.out.Results, r)
			case protocol.CallLost, protocol.CallLeaving:
			}
		}
	}
}

// End releases what was not released in time after Close.
func (t *Table) End(m protocol.Moment) {
	for _, x := range sorted(t.all) {
		for _, c := range slices.Clone(x.m.Calls) {
			if c.Phase == protocol.CallHolding || c.Phase == protocol.CallLost {
				t.step(x, protocol.MutexEvent{Kind: protocol.MutexReleased, Claim: c.Claim}, m)
			}
		}
	}
}

// each feeds an event to every mutex that is used.
func (t *Table) each(ev protocol.MutexEvent, m protocol.Moment) {
	for _, x := range sorted(t.all) {
		t.step(x, ev, m)
	}
}
