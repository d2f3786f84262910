package protocol_test

import (
	"testing"

	"github.com/shardctl/shardctl/internal/protocol"
)

// late is A with a call that saw the document at revision 500 first, and whose ticket is not written yet. Since then C
// has written a ticket.
func late(t *testing.T, store protocol.MutexDoc) *rig {
	t.Helper()
	r := newRig(t, "A")
	r.store = store
	r.ask("a1", exclusive())
	r.do(protocol.MutexEvent{Kind: protocol.MutexFound, Doc: r.store, Sure: true})
	w := only(t, r.acts, protocol.WriteMutex)
	r.store.Rev++
	r.others(ticket("C", "c1"))
	r.store.Next = "C"
	r.answer(w, protocol.Refused)
	return r
}

func heldByB() protocol.MutexDoc {
	return held(1, protocol.MutexHolder{Session: "B", Claim: "b1", Token: 500})
}

// A call is not overtaken for as long as its write is refused.
func TestMutexPlaceIsThatOfTheFirstLook(t *testing.T) {
	r := late(t, heldByB())
	r.ask("a2", exclusive())
	r.serve()
	r.shows("b1", "a1 c1 a2", "")
	if q := r.store.Queue; q[0].Seen != 500 || q[1].Seen != 501 || q[2].Seen != 502 {
		t.Errorf("%+v", q)
	}
}

// Who was notified that the mutex is free finds another before it.
func TestMutexCallBeforeTheNextOneEnters(t *testing.T) {
	r := late(t, held(1))
	c := newRig(t, "C")
	c.store = r.store
	c.ask("c1", exclusive())
	c.do(protocol.MutexEvent{Kind: protocol.MutexFound, Doc: c.store, Sure: true})
	claim := only(t, c.acts, protocol.WriteMutex)
	only(t, r.serve(), protocol.MutexGranted)
	r.shows("a1", "c1", "")
	c.store = r.store
	c.answer(claim, c.apply(claim))
	none(t, c.serve(), protocol.MutexGranted)
	r.store = c.store
	r.event(protocol.MutexReleased, "a1")
	r.serve()
	r.shows("", "c1", "C")
	only(t, c.sees(r), protocol.MutexGranted)
}

// While it is kept, the first of those that wait is next.
func TestMutexCallBeforeTheNextOneIsNext(t *testing.T) {
	kept := held(1)
	kept.Hold = protocol.MutexHold{UntilMs: 9000, ForMs: 9000, Token: 400}
	r := late(t, kept)
	r.serve()
	r.shows("", "a1 c1", "A")
}

// What a process knew before a call was made is no place for the call.
func TestMutexPlaceIsNotThatOfAnOldDocument(t *testing.T) {
	for name, looks := range map[string]func(r *rig){
		"known":            func(*rig) {},
		"a read under way": func(r *rig) { r.on(protocol.MutexLook) },
	} {
		t.Run(name, func(t *testing.T) {
			r := holding(t, exclusive())
			r.event(protocol.MutexReleased, "a1")
			r.serve()
			looks(r)
			old := r.store
			r.store.Holders = heldByB().Holders
			r.others(ticket("C", "c1"))
			r.others(ticket("D", "d1"))
			r.ask("a2", exclusive())
			if r.Reading {
				r.do(protocol.MutexEvent{Kind: protocol.MutexFound, Doc: old, Sure: true})
			}
			r.serve()
			r.shows("b1", "c1 d1 a2", "")
			if q := r.store.Queue; q[2].Seen <= q[1].Seen {
				t.Errorf("%+v", q)
			}
		})
	}
}

// A document that is deleted does not change the order of the calls of one process.
func TestMutexPlacesOutliveTheDocument(t *testing.T) {
	r := newRig(t, "A")
	r.store = held(1)
	r.ask("a1", exclusive())
	r.do(protocol.MutexEvent{Kind: protocol.MutexFound, Doc: r.store, Sure: true})
	w := only(t, r.acts, protocol.WriteMutex)
	r.store = protocol.MutexDoc{}
	r.answer(w, protocol.Refused)
	r.ask("a2", exclusive())
	r.on(protocol.MutexUnread)
	r.on(protocol.MutexTicked)
	r.do(protocol.MutexEvent{Kind: protocol.MutexFound, Sure: true, Floor: 1000}) // a2 sees none
	r.store = heldByB()
	r.store.Rev = 2000
	r.serve()
	r.shows("b1", "a1 a2", "")
}
