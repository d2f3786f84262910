package mutex_test

import (
	"slices"

	"github.com/shardctl/shardctl/internal/protocol"
)

// What is promised, looked at with each change of the document and each call that is answered.

const (
	exclusion = "M1: more hold it at once than may"
	shown     = "M1: the document does not show one that holds it"
	order     = "M2: one enters over a ticket that was written before"
	later     = "M2: a call has a place before one that had seen an older document when it was made"
	place     = "M2: the ticket of one that waits is taken out by another"
	name      = "M2: a process that came back leaves its ticket under its dead name"
	tokens    = "M3: a token that is not larger than those before"
	stuck     = "M4: when all faults have ended, a call waits for ever"
	ghost     = "M4: when all faults have ended, something of a live session stays that no call waits for"
	early     = "M5: one enters while the mutex is kept"
	far       = "M5: a call that does not wait is refused for a hold that is further off than it is long"
	unkept    = "M5: a call learns that the mutex is kept, and it is not"
	size      = "M6: the document is larger than a store takes"
	busy      = "M7: a call that does not wait is refused for the dead alone"
)

// alone says whether a holder excludes all others.
func (w *world) alone(c int) bool {
	ask := w.asks[c].ask
	return ask.Limit == 1 || ask.Limit == 0 && !ask.Shared
}

// granted is a call that starts its work.
func (w *world) granted(c int, token int64, slot int) {
	if w.say != nil {
		w.say("%c holds it under token %d", 'a'+c, token)
	}
	limit := w.asks[c].ask.Limit
	w.calls[c] = callState{phase: holding, token: token, slot: slot}
	all, excluding := 0, 0
	for i, s := range w.calls {
		if s.phase == holding {
			all++
			if w.alone(i) {
				excluding++
			}
			if i != c && limit > 1 && s.slot == slot {
				w.breaks(exclusion)
			}
		}
	}
	if excluding > 0 && all > 1 || limit > 1 && all > limit {
		w.breaks(exclusion)
	}
	switch {
	case w.alone(c) && token <= w.any, token <= w.largest, limit > 1 && token <= w.slots[slot]:
		w.breaks(tokens)
	}
	if w.alone(c) {
		w.largest = token
	}
	if limit > 1 {
		w.slots[slot] = token
	}
	w.any = max(w.any, token)
}

// tries looks at what stands before the calls that do not wait: in the document, or asked before in the same process.
func (w *world) tries() {
	for c, call := range w.asks {
		s := &w.calls[c]
		if !call.ask.Try || s.phase != waiting {
			continue
		}
		w.store.Sessions(func(session string) { s.behind = s.behind || !w.gone(session) })
		for o, other := range w.asks {
			s.behind = s.behind || o != c && other.p == call.p && w.calls[o].phase == waiting
		}
	}
}

// asked is a call that begins to wait.
func (w *world) asked(q *proc, c int) {
	w.calls[c] = callState{phase: waiting}
	if w.without == staleLook {
		w.calls[c].known = q.m.Doc.Rev
	}
	for other, s := range w.calls {
		w.calls[c].after[other] = s.phase == waiting && s.look == protocol.Looked && s.seen < w.store.Rev
	}
}

// looks: a process has sent what will show it the document.
func (w *world) looks(p int) {
	for c, call := range w.asks {
		if s := &w.calls[c]; call.p == p && s.phase == waiting {
			s.look = max(s.look, protocol.Looking)
		}
	}
}

// looked: what it has sent was answered, and shows this revision.
func (w *world) looked(p int, rev int64) {
	for c, call := range w.asks {
		if s := &w.calls[c]; call.p == p && s.look == protocol.Looking {
			s.look, s.seen = protocol.Looked, rev
		}
	}
}

// refused is a call that ends without the mutex.
func (w *world) refused(c int, reason protocol.MutexReason) {
	if p := w.asks[c].p; reason == protocol.MutexBusy {
		if !w.calls[c].behind && !w.kept(p) {
			w.breaks(busy)
		}
		if w.keptOut(p) {
			w.breaks(far)
		}
	}
	w.calls[c] = callState{phase: over}
}

// kept reports whether a process knows of a hold that is not over.
func (w *world) kept(p int) bool {
	m := &w.procs[p].m
	seen := int64(w.time)*1000 - m.SeenAt.Mono.Milliseconds()
	return m.Doc.Hold.Token > 0 && seen < m.Doc.Hold.ForMs && w.clock() < m.Doc.Hold.UntilMs
}

// keptOut says whether a process is kept out by a hold that is still far off by the store's clock, which was set back.
func (w *world) keptOut(p int) bool {
	m, h := &w.procs[p].m, w.store.Hold
	seen := int64(w.time)*1000 - m.SeenAt.Mono.Milliseconds()
	return h.Token > 0 && m.Seen.Token == h.Token && seen < h.ForMs && h.UntilMs-w.clock() > aYear/2
}

// done is a call that learns that nothing of it is left.
func (w *world) done(c int) {
	if s := w.calls[c]; s.detached && !s.kept {
		w.breaks(unkept)
	}
	w.calls[c] = callState{phase: over}
}

// watch compares the document before and after a write of a session.
func (w *world) watch(before, after protocol.MutexDoc, by string) {
	if size0 := after.Size() + w.unseen(after); size0 > protocol.MaxMutexSize {
		w.breaks(size)
	}
	for c, s := range w.calls {
		if s.phase == holding && !slices.ContainsFunc(after.Holders, func(h protocol.MutexHolder) bool {
			return h.Claim == w.claim(c) && h.Token == s.token
		}) && !w.gone(w.session(w.asks[c].p)) {
			w.breaks(shown)
		}
	}
	w.places(before, after, by)
	w.inOrder(after)
	for _, h := range after.Holders {
		if !holds(before, h.Claim) {
			w.entered(before, after, h.Claim)
		}
	}
}

func holds(d protocol.MutexDoc, claim string) bool {
	return slices.ContainsFunc(d.Holders, func(h protocol.MutexHolder) bool { return h.Claim == claim })
}

func ticketOf(d protocol.MutexDoc, claim string) int {
	return slices.IndexFunc(d.Queue, func(t protocol.MutexTicket) bool { return t.Claim == claim })
}

// waits says whether a ticket is one of a live session whose call waits.
func (w *world) waits(t protocol.MutexTicket) bool {
	return !w.gone(t.Session) && w.calls[callOf(t.Claim)].phase == waiting
}

// places: no waiter is taken out, and who has come back keeps its place under its new name.
func (w *world) places(before, after protocol.MutexDoc, by string) {
	for _, t := range before.Queue {
		if w.waits(t) && ticketOf(after, t.Claim) < 0 && !holds(after, t.Claim) {
			w.breaks(place)
		}
	}
	for _, t := range after.Queue {
		p := w.asks[callOf(t.Claim)].p
		if w.calls[callOf(t.Claim)].phase == waiting && by == w.session(p) && t.Session != by {
			w.breaks(name)
		}
	}
}

// inOrder: of those that wait none is before one that was made earlier.
func (w *world) inOrder(d protocol.MutexDoc) {
	for i, behind := range d.Queue {
		for _, ahead := range d.Queue[:i] {
			if w.waits(ahead) && w.waits(behind) && w.calls[callOf(ahead.Claim)].after[callOf(behind.Claim)] {
				w.breaks(later)
			}
		}
	}
}

// passes says whether a call whose ticket was not written yet belongs before a ticket. Of one that ended, and whose
// write lands late, that is not known any more.
func (w *world) passes(c int, t protocol.MutexTicket) bool {
	s := w.calls[c]
	return s.phase != waiting || s.look == protocol.Looked && s.seen < t.Seen && !s.after[callOf(t.Claim)]
}

// entered: a claim leaves those before it what they could have.
func (w *world) entered(before, after protocol.MutexDoc, claim string) {
	c := callOf(claim)
	ask := w.asks[c].ask
	// By its clock a hold ends as it was wished. One that was set right lasts for its length at least.
	if before.Hold != (protocol.MutexHold{}) && (w.clock() < before.Hold.UntilMs || w.right) &&
		int64(w.time-w.holdAt)*1000 < before.Hold.ForMs {
		w.breaks(early)
	}
	at := ticketOf(before, claim)
	ahead := 0
	for i, t := range before.Queue {
		switch {
		case i == at:
			return
		case ticketOf(after, t.Claim) < 0 || !w.waits(t) || at < 0 && w.passes(c, t):
			continue
		}
		ahead++
		reads := ask.Limit == 0 && ask.Shared && w.asks[callOf(t.Claim)].ask.Shared
		switch {
		case reads, ask.Unfair && !ask.Shared && before.Next != t.Session:
		case ask.Limit > 1 && len(after.Holders)+ahead <= ask.Limit:
		default:
			w.breaks(order)
		}
	}
}
