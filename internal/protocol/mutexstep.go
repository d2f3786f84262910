package protocol

import "slices"

// mutexStep is a mutex during one event.
type mutexStep struct {
	Mutex
	m    Moment
	tick bool
	acts []MutexAction
}

func (s *mutexStep) act(a MutexAction) { s.acts = append(s.acts, a) }

// take notes the event.
func (s *mutexStep) take(ev MutexEvent) {
	switch ev.Kind {
	case MutexAsked:
		s.asked(ev)
	case MutexGaveUp, MutexReleased, MutexDetached:
		s.leaves(ev)
	case MutexFound:
		s.found(ev)
	case MutexUnread:
		s.Unread = s.Reading
		s.Reading = false
	case MutexAnswered:
		if s.Write.Sent && ev.Seq == s.Write.Seq {
			s.answered(ev)
		}
	case MutexDied:
		if ev.Session != s.Session && !slices.Contains(s.Sessions.Dead, ev.Session) {
			s.Sessions.Dead = append(slices.Clip(s.Sessions.Dead), ev.Session)
		}
	case MutexAlive:
		if slices.Contains(s.Sessions.Wanted, ev.Session) && !slices.Contains(s.Sessions.Alive, ev.Session) {
			s.Sessions.Alive = append(slices.Clip(s.Sessions.Alive), ev.Session)
		}
	case MutexExpired:
		s.lose(LeaseExpired)
	case MutexRenamed:
		s.rename(ev.Session)
	case MutexLineageChanged:
		// What is under way was decided on what may be forgotten, and so were deaths.
		s.Verifying, s.Known, s.Doc, s.Write = true, false, MutexDoc{}, MutexWrite{}
		s.Sessions.Dead, s.Sessions.Wanted, s.Sessions.Alive = nil, nil, nil
	case MutexTicked:
		s.Backoff.Pause = false
	case MutexLook:
	}
}

func (s *mutexStep) asked(ev MutexEvent) {
	switch {
	case s.Calls.named(ev.Claim) != nil:
	case ev.Request.AtLeast > 0 && !ev.Request.alone():
		s.act(MutexAction{Kind: MutexRefused, Claim: ev.Claim, Reason: NotAlone})
	default:
		s.Calls = append(s.Calls, MutexCall{Claim: ev.Claim, Request: ev.Request})
	}
}

// leaves takes a call that wants no more. What the document still shows of it is taken out by the next write.
func (s *mutexStep) leaves(ev MutexEvent) {
	c := s.Calls.named(ev.Claim)
	switch {
	case c == nil:
		if ev.Kind != MutexGaveUp {
			s.act(MutexAction{Kind: MutexDone, Claim: ev.Claim})
		}
	case c.Phase == CallWaiting:
		s.Calls = s.Calls.without(ev.Claim)
	case ev.Kind == MutexDetached && !c.Request.alone():
		s.act(MutexAction{Kind: MutexRefused, Claim: ev.Claim, Reason: NotAlone})
	case ev.Kind == MutexDetached && c.Phase == CallHolding:
		c.Phase, c.Keep = CallLeaving, MutexHold{ev.Keep.UntilMs, ev.Keep.ForMs, c.Token, true}
	default:
		c.Phase = CallLeaving
	}
}

// found takes the document as read. What may be old counts only where it is newer than what is known. So does what
// no one here has asked for: it may have been read before the last write.
func (s *mutexStep) found(ev MutexEvent) {
	if !ev.Sure || !s.Reading {
		if s.Known && ev.Doc.Rev > s.Doc.Rev {
			s.Mutex = s.knows(ev.Doc, s.m.Now)
		}
		return
	}
	s.Reading, s.Unread, s.Verifying = false, false, false
	s.Floor = ev.Floor
	s.Mutex = s.knows(ev.Doc, s.m.Now)
	s.Calls.looked(s.Doc.Rev)
}

func (s *mutexStep) answered(ev MutexEvent) {
	w := s.Write
	s.Write.Sent = false
	switch ev.Status {
	case Unknown:
		return // repeated at the next tick
	case Applied:
		s.Write, s.Backoff.Refusals = MutexWrite{}, 0
		if w.Doc.Rev > s.Doc.Rev {
			s.Mutex = s.knows(w.Doc, s.m.Now)
		}
		s.Calls.looked(w.Doc.Rev)
		s.grant(w)
	case Refused:
		// An earlier copy may have landed. Claims that the document shows are made again: see mutexPlan.
		s.Write = MutexWrite{}
		s.Backoff.Refusals++
		s.Backoff.Until = s.m.Now.Add(pause(s.Session, s.Seq, s.Backoff.Refusals))
		switch {
		case ev.Doc.Rev == 0 || ev.Doc.Rev < s.Doc.Rev:
			s.Known, s.Doc = false, MutexDoc{} // only a read says what revisions must exceed
		case ev.Doc.Rev == w.IfRev:
			s.Backoff.Pause = true
			s.Mutex = s.knows(ev.Doc, s.m.Now)
		default:
			s.Mutex = s.knows(ev.Doc, s.m.Now)
			s.Calls.looked(s.Doc.Rev)
		}
	case Unwritable:
		s.Write = MutexWrite{}
		s.unwritable()
	}
}

// unwritable ends the calls that the write under way was for, since no store can take it: an edited document may be too
// large. What holds the mutex goes on, and tries again when it leaves.
func (s *mutexStep) unwritable() {
	for _, c := range s.Calls {
		switch c.Phase {
		case CallWaiting:
			s.act(MutexAction{Kind: MutexRefused, Claim: c.Claim, Reason: MutexUnwritable})
		case CallLeaving:
			s.act(MutexAction{Kind: MutexLost, Claim: c.Claim, Reason: MutexUnwritable})
			s.act(MutexAction{Kind: MutexDone, Claim: c.Claim})
		case CallHolding, CallLost:
		}
	}
	s.Calls = slices.DeleteFunc(s.Calls, func(c MutexCall) bool {
		return c.Phase == CallWaiting || c.Phase == CallLeaving
	})
	s.Known, s.Doc, s.Backoff.Pause = false, MutexDoc{}, true
}

// grant answers the calls whose claims this write made. After D no one may start: the claim is made again later.
func (s *mutexStep) grant(w MutexWrite) {
	for _, h := range w.Doc.Holders {
		c := s.Calls.named(h.Claim)
		if h.Token == w.Doc.Rev && c != nil && c.Phase == CallWaiting && s.m.Valid {
			c.Phase, c.Token, c.Since = CallHolding, h.Token, s.m.Now
			s.act(MutexAction{Kind: MutexGranted, Claim: h.Claim, Token: h.Token, Slot: h.Slot})
		}
	}
}

// lose reports the loss of every hold. Their holders stay until they are released, or the session is known to be dead.
func (s *mutexStep) lose(reason MutexReason) {
	for i := range s.Calls {
		if c := &s.Calls[i]; c.Phase == CallHolding {
			c.Phase = CallLost
			s.act(MutexAction{Kind: MutexLost, Claim: c.Claim, Reason: reason})
		}
	}
}

// rename goes on under a new session. The one before is dead, and so is what it held. An unanswered write of it may
// still land; it is found in the document then.
func (s *mutexStep) rename(session string) {
	if session == s.Session {
		return
	}
	s.lose(LeaseExpired)
	for _, c := range s.Calls {
		switch {
		case c.Phase == CallLeaving && c.Keep != MutexHold{}:
			s.act(MutexAction{Kind: MutexLost, Claim: c.Claim, Reason: LeaseExpired})
			s.act(MutexAction{Kind: MutexDone, Claim: c.Claim})
		case c.Phase == CallLeaving:
			s.act(MutexAction{Kind: MutexDone, Claim: c.Claim})
		}
	}
	s.Calls = slices.DeleteFunc(s.Calls, func(c MutexCall) bool { return c.Phase != CallWaiting })
	s.Write, s.Backoff.Pause = MutexWrite{}, false
	if s.Session != "" {
		s.Sessions.Dead = append(slices.Clip(s.Sessions.Dead), s.Session)
	}
	s.Session = session
	s.Sessions.Dead = slices.DeleteFunc(slices.Clone(s.Sessions.Dead), func(d string) bool { return d == session })
}

// settle compares the calls with the document.
func (s *mutexStep) settle() {
	if !s.Known {
		return
	}
	for _, c := range slices.Clone(s.Calls) {
		at := s.Doc.holder(c.Claim)
		there := at >= 0 && s.Doc.Holders[at].Token == c.Token
		switch {
		case c.Phase == CallHolding && !there:
			s.Calls.named(c.Claim).Phase = CallLost
			s.act(MutexAction{Kind: MutexLost, Claim: c.Claim, Reason: HolderGone})
		case c.Phase == CallLeaving && at < 0:
			if c.Keep != (MutexHold{}) && s.Doc.Hold.Token != c.Token {
				s.act(MutexAction{Kind: MutexLost, Claim: c.Claim, Reason: HolderGone})
			}
			s.act(MutexAction{Kind: MutexDone, Claim: c.Claim})
			s.Calls = s.Calls.without(c.Claim)
		}
	}
}

// overdue ends holds whose longest time is over.
func (s *mutexStep) overdue() {
	for i := range s.Calls {
		c := &s.Calls[i]
		if d := c.Request.MaxHold; c.Phase == CallHolding && d > 0 && s.m.Now.Reached(c.Since, d) {
			c.Phase = CallLost
			s.act(MutexAction{Kind: MutexLost, Claim: c.Claim, Reason: HeldTooLong})
		}
	}
}

// send decides what goes to the store now: one write or read at a time.
func (s *mutexStep) send(ev MutexEvent) {
	switch {
	case s.Reading || s.Write.Sent:
		return
	case s.Verifying, !s.Known && !s.Write.Under:
		needed := s.Verifying || len(s.Calls) > 0 || ev.Kind == MutexLook || s.Unread
		if needed && (!s.Unread || s.tick) {
			s.read()
		}
		return
	case s.Write.Under:
		if s.tick {
			s.write()
		}
		return
	case ev.Kind == MutexLook:
		s.read()
		return
	}
	s.change()
}

// change writes what the calls and the document ask for, if anything.
func (s *mutexStep) change() {
	if s.Session == "" || s.Backoff.Pause {
		return
	}
	p := planMutex(s.Mutex, s.m)
	for _, r := range p.refused {
		s.act(r)
		s.Calls = s.Calls.without(r.Claim)
	}
	switch {
	case p.need && (p.urgent || s.m.Now.HolderElapsed(s.Backoff.Until) >= 0):
		s.Seq++
		s.Write = MutexWrite{Under: true, Seq: s.Seq, IfRev: s.Doc.Rev, Doc: p.doc, Enter: p.enter}
		s.write()
	case p.look && (!s.Unread || s.tick):
		s.read()
	case s.Doc.Rev == 0:
		s.Known = false // what was read with it is soon too old to create it
	}
}

func (s *mutexStep) write() {
	s.Write.Sent = true
	s.Calls.looks()
	w := s.Write
	s.act(MutexAction{Kind: WriteMutex, Seq: w.Seq, IfRev: w.IfRev, Doc: w.Doc, Enter: w.Enter})
}

func (s *mutexStep) read() {
	s.Reading, s.Unread = true, false
	s.Calls.looks()
	s.act(MutexAction{Kind: ReadMutex})
}
