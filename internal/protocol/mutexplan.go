package protocol

import "slices"

// mutexPlan is the next document of a mutex, as one process would write it.
type mutexPlan struct {
	x     Mutex
	m     Moment
	doc   MutexDoc
	named func(claim string) *MutexCall // of x

	enter   bool // it makes a holder
	right   bool // it sets a hold right
	need    bool // a call of this process, or what is left of one, asks for the write
	urgent  bool // and not only for a new place in the queue
	look    bool // a call that is to be refused was not shown the document yet
	refused []MutexAction
}

// planMutex makes one change of all that the process wants.
func planMutex(x Mutex, m Moment) mutexPlan {
	p := mutexPlan{x: x, m: m, doc: x.Doc, named: x.Calls.byClaim()}
	p.doc.Rev = x.Doc.nextRev(max(m.Rev, x.Floor))
	p.rename()
	p.bury()
	p.tidy()
	p.setRight()
	p.leave()
	if m.Valid {
		p.again()
		p.overtake()
		p.queue()
		p.enterInOrder()
		p.hurry()
	}
	p.doc = p.doc.passedOn()
	return p
}

func (p *mutexPlan) wants(urgently bool) {
	p.need, p.urgent = p.need || urgently, p.urgent || urgently
}

// waits says whether a call of this name waits, and what it asks for.
func (p *mutexPlan) waits(claim string) (MutexCall, bool) {
	if c := p.named(claim); c != nil {
		return *c, c.Phase == CallWaiting
	}
	return MutexCall{}, false
}

// rename puts this session in the place of the one before it.
func (p *mutexPlan) rename() {
	of := func(session, claim string) bool {
		_, waits := p.waits(claim)
		return waits && session != p.x.Session
	}
	if slices.ContainsFunc(p.doc.Queue, func(t MutexTicket) bool { return of(t.Session, t.Claim) }) ||
		slices.ContainsFunc(p.doc.Holders, func(h MutexHolder) bool { return of(h.Session, h.Claim) }) {
		p.doc = p.doc.renamed(p.x.Session, func(claim string) bool { _, waits := p.waits(claim); return waits })
		p.wants(true)
	}
}

// bury takes out the dead. That alone is a reason to write for the ticket that follows a dead one: who releases
// may not know of the death, and would notify no one else.
func (p *mutexPlan) bury() {
	dead := func(session string) bool { return slices.Contains(p.x.Sessions.Dead, session) }
	follows := slices.ContainsFunc(p.doc.Holders, func(h MutexHolder) bool { return dead(h.Session) })
	for _, t := range p.doc.Queue {
		_, mine := p.waits(t.Claim)
		p.wants(follows && mine)
		follows = dead(t.Session)
	}
	p.doc = p.doc.withoutDead(p.x.Sessions.Dead)
}

// tidy takes out what names this session without a call of it: a ticket without a call, a claim that was given up.
func (p *mutexPlan) tidy() {
	before := p.doc.entries()
	p.doc = p.doc.without(func(session, claim string) bool {
		return session == p.x.Session && p.named(claim) == nil
	})
	p.wants(p.doc.entries() < before)
}

// setRight has a hold that is further off than it is long last for its length from now on.
func (p *mutexPlan) setRight() {
	h := &p.doc.Hold
	if len(p.x.Calls) == 0 || !h.ahead(p.m.Clock) || p.x.holdOver(p.m) {
		return
	}
	h.UntilMs = p.m.Clock + h.ForMs
	p.right = true
	p.wants(true)
}

// leave takes out the holders that are done.
func (p *mutexPlan) leave() {
	for _, c := range p.x.Calls {
		if c.Phase == CallLeaving && p.doc.holder(c.Claim) >= 0 {
			p.doc = p.doc.left(c.Claim)
			if c.Keep != (MutexHold{}) {
				p.doc.Hold = p.longer(c.Keep)
			}
			p.wants(true)
		}
	}
}

// longer returns the hold that a holder wishes when it leaves, or, where what it wished with its claim lasts longer, the
// rest of that. It is a hold of its own either way: for how long others have seen the one of the claim does not count.
func (p *mutexPlan) longer(keep MutexHold) MutexHold {
	if until := p.doc.Hold.UntilMs; !p.over() && until > keep.UntilMs {
		keep.UntilMs, keep.ForMs = until, until-p.m.Clock
	}
	return keep
}

// again makes another claim of what the document shows as claimed by a call that was not granted. The claim was found,
// not acknowledged, or acknowledged too late. What it rests on may be forgotten.
func (p *mutexPlan) again() {
	for _, h := range p.doc.Holders {
		if c, waits := p.waits(h.Claim); waits {
			p.claim(c)
		}
	}
}

// claim makes a call the holder.
func (p *mutexPlan) claim(c MutexCall) {
	h := MutexHolder{Session: p.x.Session, Claim: c.Claim, Token: p.doc.Rev, Shared: c.Request.Shared}
	if c.Request.MaxHold > 0 {
		h.Until = p.m.Clock + c.Request.MaxHold.Milliseconds()
	}
	p.doc = p.doc.entered(h)
	if c.Request.AtLeast > 0 {
		d := c.Request.AtLeast.Milliseconds()
		p.doc.Hold = MutexHold{UntilMs: p.m.Clock + d, ForMs: d, Token: h.Token}
	}
	p.enter = true
	p.wants(true)
}

// fresh calls do for the calls that wait and are not in the document, in the order of asking. The first one that finds
// the mutex unused says what its limit is.
func (p *mutexPlan) fresh(do func(MutexCall)) {
	there := p.doc.claims(len(p.x.Calls))
	for _, c := range p.x.Calls {
		if c.Phase != CallWaiting || there(c.Claim) || p.isRefused(c.Claim) {
			continue
		}
		if !p.doc.used() {
			p.doc.Limit = c.Request.Limit
		}
		if p.doc.Limit == c.Request.Limit {
			do(c)
		} else {
			p.refuse(c, LimitDiffers)
		}
	}
}

func (p *mutexPlan) isRefused(claim string) bool {
	return slices.ContainsFunc(p.refused, func(a MutexAction) bool { return a.Claim == claim })
}

// refuse refuses a call that the document was shown to since it asked. What is known may be old: else it is read first.
func (p *mutexPlan) refuse(c MutexCall, reason MutexReason) {
	if c.Look != Looked {
		p.look = true
		return
	}
	p.refused = append(p.refused, MutexAction{Kind: MutexRefused, Claim: c.Claim, Reason: reason})
}

// overtake lets unfair calls in over the queue, where Next names no live session. That is so in the write
// that releases it. Readers do not overtake writers.
func (p *mutexPlan) overtake() {
	notified := p.doc.Next != "" && !slices.Contains(p.x.Sessions.Dead, p.doc.Next)
	enter := func(c MutexCall) {
		shared := c.Request.Shared
		if c.Request.Unfair && !notified && p.over() && p.doc.fits(shared) && (!shared || !writerIn(p.doc.Queue)) {
			p.claim(c)
		}
	}
	for _, t := range p.doc.Queue {
		if c, waits := p.waits(t.Claim); waits && !p.doc.atLimit() {
			enter(c)
		}
	}
	p.fresh(func(c MutexCall) {
		if !p.doc.full(p.ticket(c)) {
			enter(c)
		}
	})
}

// over says whether no hold keeps others out.
func (p *mutexPlan) over() bool {
	return p.doc.Hold == MutexHold{} || p.doc.Hold == p.x.Doc.Hold && p.x.holdOver(p.m)
}

// ticket is that of a call. A call that was not shown the document since it asked sees what this write replaces: if
// that is old, the write is refused.
func (p *mutexPlan) ticket(c MutexCall) MutexTicket {
	seen := p.x.Doc.Rev
	if c.Look == Looked {
		seen = min(seen, c.Seen)
	}
	return MutexTicket{p.x.Session, c.Claim, c.Request.Shared, seen}
}

// queue gives the others a place.
func (p *mutexPlan) queue() {
	p.fresh(func(c MutexCall) {
		t := p.ticket(c)
		switch {
		case !p.doc.full(t):
			p.doc = p.doc.Queued(t)
			p.need = p.need || !c.Request.Try
		case c.Request.Try:
			p.busy(c)
		default:
			p.refuse(c, QueueFull)
		}
	})
}

// enterInOrder makes holders of the tickets of this process that may enter, as many as the document can have.
func (p *mutexPlan) enterInOrder() {
	for i := 0; i < len(p.doc.Queue); {
		c, waits := p.waits(p.doc.Queue[i].Claim)
		switch {
		case !waits || !p.over() || !p.doc.mayEnter(i):
			i++
		case p.doc.atLimit():
			return
		default:
			p.claim(c)
		}
	}
}

// hurry takes the tickets of calls that do not wait out again.
func (p *mutexPlan) hurry() {
	for _, t := range p.doc.Queue {
		if c, waits := p.waits(t.Claim); waits && c.Request.Try {
			p.doc = p.doc.left(c.Claim)
			p.busy(c)
		}
	}
}

// busy refuses a call that would have to wait, also if all were dead who were not seen yet.
func (p *mutexPlan) busy(c MutexCall) {
	if p.right {
		return // once that is written: the process may end with the call
	}
	if unseen := p.x.unseen(); len(unseen) > 0 && c.Look == Looked {
		free := p.x
		free.Sessions.Dead = append(slices.Clip(free.Sessions.Dead), unseen...)
		if planMutex(free, p.m).doc.holder(c.Claim) >= 0 {
			return
		}
	}
	p.refuse(c, MutexBusy)
}
