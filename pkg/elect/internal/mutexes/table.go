package mutexes

import (
	"github.com/shardctl/shardctl/pkg/elect/protocol"
	"github.com/shardctl/shardctl/pkg/elect/record"
	"github.com/shardctl/shardctl/pkg/store"
)

// Table holds the mutexes of one process, by the ids of their documents. It is not safe for concurrent use.
type Table struct {
	p        protocol.Params
	ids      *record.WriterIDs // of the session; nil before the first
	all      map[string]*mutex
	used     int               // of all, those that are not idle
	timed    map[string]*mutex // those that time alone may change
	watching bool
	out      Ready
}

// mutex is one of them.
type mutex struct {
	id     string
	m      protocol.Mutex
	idle   bool         // nothing of it is used here; it is kept for the next call
	seq    int64        // of the write that change is
	change store.Change // as sent last: a repeat is the very same
	agenda
}

// maxIdle is how many mutexes are kept that nobody uses. The next call for one of them needs no read.
const maxIdle = 1000

// New is an empty table.
func New(p protocol.Params) *Table {
	return &Table{p: p, all: map[string]*mutex{}, timed: map[string]*mutex{}}
}

// Len is how many mutexes are in use here: this process holds, waits or has something under way.
func (t *Table) Len() int { return t.used }

// Doubtful says whether a mutex is not compared yet with another course of writes.
func (t *Table) Doubtful() bool {
	for _, x := range t.all {
		if x.m.Doubt {
			return true
		}
	}
	return false
}

// Ready returns what is to be done since the last call.
func (t *Table) Ready() Ready {
	if t.out.Empty() { // as most of the time
		return Ready{}
	}
	r := t.out
	t.out = Ready{}
	return r.sorted()
}

// Prepare makes the changes of these mutexes that are about to be sent. One whose write is no longer wanted is left
// out.
func (t *Table) Prepare(ids []string, m protocol.Moment) []store.Change {
	changes := make([]store.Change, 0, len(ids))
	for _, id := range ids {
		x := t.all[id]
		if x == nil || !x.m.Write.Sent {
			continue
		}
		if w := x.m.Write; w.Seq != x.seq || x.change.Doc.WriterID.Session != t.ids.Session {
			x.m = x.m.WithClock(m.Rev).Dated(m.Clock) // a long queue must not make it look old
			x.seq, w = w.Seq, x.m.Write
			x.change = store.Change{
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

func (t *Table) get(id string) *mutex {
	x := t.all[id]
	if x == nil {
		x = &mutex{id: id}
		if t.ids != nil {
			x.m.Session = t.ids.Session
		}
		t.all[id] = x
		t.used++
	}
	return x
}

// step feeds one machine and notes what it wants done.
func (t *Table) step(x *mutex, ev protocol.MutexEvent, m protocol.Moment) {
	var acts []protocol.MutexAction
	x.m, acts = x.m.Step(ev, m)
	for _, a := range acts {
		t.act(x, a)
	}
	if idle := x.m.Idle(); idle != x.idle {
		x.idle = idle
		if idle {
			t.used--
		} else {
			t.used++
		}
	}
	if x.idle && (x.m.Doc.Rev == 0 || len(t.all)-t.used > maxIdle) {
		t.forget(x)
		return
	}
	t.schedule(x, m)
}

// forget drops a mutex that is idle.
func (t *Table) forget(x *mutex) {
	delete(t.all, x.id)
	delete(t.timed, x.id)
}

func (t *Table) act(x *mutex, a protocol.MutexAction) {
	switch a.Kind {
	case protocol.WriteMutex:
		t.out.Writes = append(t.out.Writes, x.id)
	case protocol.ReadMutex:
		t.out.Reads = append(t.out.Reads, x.id)
	case protocol.WantSession:
		t.out.Wants = append(t.out.Wants, a.Session)
	case protocol.MutexGranted, protocol.MutexRefused, protocol.MutexLost, protocol.MutexDone:
		t.out.Results = append(t.out.Results, Result{
			ID: x.id, Claim: a.Claim, Kind: a.Kind, Token: a.Token, Slot: a.Slot, Reason: a.Reason,
		})
	}
}
