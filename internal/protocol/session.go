package protocol

import "time"

// SessionPhase is where a session stands.
type SessionPhase uint8

// The phases of a session, in order; it never goes back.
const (
	Opening SessionPhase = iota // the document's creation is not acknowledged yet
	// Open: its heartbeat renewed; whether keys may run depends on the age of the last acknowledged heartbeat
	Open
	Lost   // somebody else ended it: everything is being killed
	Ending // nothing runs any more: being marked dead
	Ended  // known to be dead; a new session may be opened
)

// State is what a session's document says.
type State uint8

// The states of a session's document. Absent means there is no document, Other that it says something else.
const (
	Absent State = iota
	Live
	Draining
	Dead
	Other
)

// Status is how a write ended.
type Status uint8

// How a write ended. Overtaken (it may have happened and the document was written again) counts as Refused: anyone who
// is informed so looks again.
const (
	Unknown Status = iota
	Applied
	Refused
	// Unwritable: no store can ever take it, so nothing of it was sent. It is given up.
	Unwritable
)

// SessionWrite is the write that a session has under way; an unanswered one is repeated as it is.
type SessionWrite struct {
	Under     bool // one is under way or must be repeated
	Sent      bool // a copy is out and not answered
	IfRev     int64
	NewRev    int64 // even when State is alive, odd when it is dead
	Heartbeat int64
	State     State
	FirstSent Instant // when the first copy was sent: any of them may be the one that landed
}

// Session is this process's membership as a state machine. The zero value is a session about to be opened.
type Session struct {
	Phase     SessionPhase
	Rev       int64   // of the document, as last acknowledged
	Heartbeat int64   // as last acknowledged
	Acked     Instant // when the last acknowledged heartbeat was sent; meaningful once Rev > 0
	Drain     bool    // wanted: say draining, take no new keys
	End       bool    // wanted: mark it dead once nothing runs
	Idle      bool    // and nothing runs any more: no further heartbeat is begun

	AnnouncedDraining bool // the acknowledged document says draining
	Write             SessionWrite
	RetryAt           Instant           // no repeat before, after a failure
	Reading           bool              // a read of the own document is under way
	Look              bool              // a refusal is to be understood by a read
	Reported          DeadlinesReported // since the last acknowledged heartbeat
	FoundRev          int64             // Ending: the revision to mark dead at
	Lineage           SessionLineage
}

// SessionLineage is what a change of the store's lineage leaves to be verified.
type SessionLineage struct {
	Verifying    bool // the keys held: no heartbeat is sent, and none counts
	VerifyingOwn bool // the own document: it is read once the keys are verified
	Forgot       bool // a read showed the document below the revision acknowledged
}

// DeadlinesReported is which deadlines were said to have come: each is said once.
type DeadlinesReported struct{ Cancel, Kill, Hard bool }

// SessionEventKind is what happened to a session.
type SessionEventKind uint8

// What can happen to a session.
const (
	SessionTick           SessionEventKind = iota // time has passed
	SessionAnswer                                 // of a SendHeartbeat or MarkDead
	SessionRead                                   // of a ReadSession
	SessionDrain                                  // say draining, and end once nothing runs
	SessionSayDraining                            // say draining, and go on
	SessionTasksOff                               // nothing of any task is left
	SessionLineageChanged                         // the store follows another lineage: what is held is to be verified
	SessionVerified                               // every key held was compared, and what was lost has ended
)

// SessionEvent is an event for a session. Which fields count depends on Kind.
type SessionEvent struct {
	Kind      SessionEventKind
	Status    Status // SessionAnswer
	OK        bool   // SessionRead: the read succeeded
	Clock     int64  // the store's time in ms as last reported, for new revisions; 0: not yet, and nothing is written
	Rev       int64  // SessionRead: as found
	Heartbeat int64
	State     State // SessionRead: as found; Absent: no document
	Mine      bool  // SessionRead: the document's last writer is this session
}

// SessionActionKind is what a session wants done.
type SessionActionKind uint8

// What a session wants done.
const (
	SendHeartbeat SessionActionKind = iota // write the heartbeat: create if IfRev is 0
	ReadSession                            // read the own document, linearizably
	Renewed                                // a heartbeat was acknowledged: deadlines count from Acked
	CancelTasks                            // D has come: ask all tasks to stop
	KillTasks                              // 0.8 T, or the session is lost: kill what is left
	HardStop                               // X: if anything is left, the process must go
	MarkDead                               // write state dead from IfRev to NewRev (IfRev 0: create)
	SessionOver                            // Ended: nothing of this session will happen any more
)

// SessionAction is one thing to do.
type SessionAction struct {
	Kind          SessionActionKind
	IfRev, NewRev int64
	Heartbeat     int64
	State         State
	Acked         Instant // Renewed
}

// Valid says whether tasks of the session may be started and go on at now. Its document must have been live or draining
// when the last heartbeat was acknowledged, and D must not have come since that heartbeat was sent.
func (s Session) Valid(p Params, now Instant) bool { return s.Lease().Valid(p, now) }

// Lease is what the session's deadlines count from.
func (s Session) Lease() Lease { return Lease{Open: s.Phase == Open, Acked: s.Acked} }

// Lease is what a holder's deadlines count from, wherever they are looked at.
type Lease struct {
	Open  bool
	Acked Instant // when the last acknowledged heartbeat was sent
}

// Valid says whether tasks may be started and go on.
func (l Lease) Valid(p Params, now Instant) bool { return l.Open && l.UntilCancel(p, now) > 0 }

// UntilCancel is the time left before D; at 0 it has come.
func (l Lease) UntilCancel(p Params, now Instant) time.Duration {
	return p.Renew - now.HolderElapsed(l.Acked)
}

// UntilHard is the time left before X.
func (l Lease) UntilHard(p Params, now Instant) time.Duration {
	return p.Hard - now.HolderElapsed(l.Acked)
}

// Step is one event at one moment.
func (s Session) Step(p Params, ev SessionEvent, now Instant) (Session, []SessionAction) {
	var acts []SessionAction
	switch ev.Kind {
	case SessionAnswer:
		s, acts = s.answer(p, ev, now)
	case SessionRead:
		s, acts = s.read(p, ev, now)
	case SessionDrain:
		s.Drain, s.End = true, true
	case SessionSayDraining:
		s.Drain = true
	case SessionTasksOff:
		s = s.tasksOff()
	case SessionLineageChanged:
		s.Lineage.Verifying = s.Phase == Open
	case SessionVerified:
		if s.Lineage.Verifying {
			s.Look, s.Lineage.VerifyingOwn, s.Lineage.Verifying = true, true, false
		}
	case SessionTick:
	}
	s, more := s.deadlines(p, now)
	acts = append(acts, more...)
	s, more = s.mayEnd().send(p, ev.Clock, now)
	return s, append(acts, more...)
}

func (s Session) answer(p Params, ev SessionEvent, now Instant) (Session, []SessionAction) {
	if !s.Write.Under || !s.Write.Sent {
		return s, nil
	}
	w := s.Write
	w.Sent = false
	s.Write = w
	switch {
	case ev.Status == Unknown || s.Lineage.Verifying:
		s.RetryAt = now.Add(p.Retry)
		s.Look = s.Look || s.Phase == Opening // a creation is sent once
		return s, nil
	case s.Phase == Ending && ev.Status == Applied:
		s.Phase, s.Write = Ended, SessionWrite{}
		return s, []SessionAction{{Kind: SessionOver}}
	case ev.Status == Applied && s.Phase != Lost:
		return s.acknowledge(w)
	default:
		// Refused. Only a read says whether an earlier copy had landed, or who came between.
		s.Look = true
		return s, nil
	}
}

// acknowledge takes the write under way as having happened. The deadline counts from its first copy: any of them
// may be the one that landed.
func (s Session) acknowledge(w SessionWrite) (Session, []SessionAction) {
	s.Write, s.Look = SessionWrite{}, false
	s.Rev, s.Heartbeat, s.Acked = w.NewRev, w.Heartbeat, w.FirstSent
	s.AnnouncedDraining = w.State == Draining
	s.Phase = Open
	s.Reported = DeadlinesReported{}
	return s, []SessionAction{{Kind: Renewed, Acked: s.Acked}}
}

func (s Session) read(p Params, ev SessionEvent, now Instant) (Session, []SessionAction) {
	s.Reading = false
	if !ev.OK {
		s.RetryAt = now.Add(p.Retry)
		return s, nil
	}
	s.Look = false
	alive := ev.State == Live || ev.State == Draining
	s.Lineage.Forgot = s.Lineage.Forgot || ev.Rev < s.Rev && !s.Lineage.VerifyingOwn
	s.Lineage.VerifyingOwn = false
	w := s.Write
	switch {
	case s.Phase == Ending && ev.State == Dead:
		s.Phase, s.Write = Ended, SessionWrite{}
		return s, []SessionAction{{Kind: SessionOver}}
	case s.Phase == Ending || s.Phase == Lost:
		s.FoundRev, s.Write = ev.Rev, SessionWrite{}
		return s, nil
	case alive && ev.Mine && w.Under && ev.Rev == w.NewRev && ev.Heartbeat == w.Heartbeat:
		return s.acknowledge(w)
	case s.Phase == Opening && ev.State == Absent:
		// Not landed yet. The same creation again could land over its own deletion: it is made impossible, and
		// another name is taken.
		s.Phase, s.Write, s.FoundRev = Ending, SessionWrite{}, 0
		return s, nil
	case alive && s.Phase == Open && ev.Rev == s.Rev && ev.Heartbeat == s.Heartbeat:
		return s, nil // still as I left it: again
	}
	s.Phase, s.Write, s.FoundRev = Lost, SessionWrite{}, ev.Rev
	s.Reported.Kill, s.Reported.Cancel = true, true
	return s, []SessionAction{{Kind: KillTasks}}
}

func (s Session) tasksOff() Session {
	switch {
	case s.Phase == Lost:
		s.Phase, s.Write = Ending, SessionWrite{}
	case s.Phase == Opening && s.End && !s.Write.Sent && !s.Reading:
		// Whether it was ever created is not known: created as dead, it cannot be any more.
		s.Phase, s.Write, s.Look, s.FoundRev = Ending, SessionWrite{}, false, 0
	case s.Phase == Open && s.End:
		s.Idle = true
	}
	return s.mayEnd()
}

// mayEnd goes from the last answered heartbeat to the end. Where each answer takes longer than the pause between two
// heartbeats there is no moment without one under way. So it is asked before another is begun.
func (s Session) mayEnd() Session {
	if s.Phase == Open && s.Idle && !s.Write.Under {
		s.Phase, s.FoundRev = Ending, s.Rev
	}
	return s
}

// deadlines says, once each since the last acknowledged heartbeat, what has become due.
func (s Session) deadlines(p Params, now Instant) (Session, []SessionAction) {
	if s.Phase != Open && s.Phase != Lost || s.Rev == 0 {
		return s, nil
	}
	var acts []SessionAction
	due := func(said *bool, at bool, kind SessionActionKind) {
		if at && !*said {
			*said = true
			acts = append(acts, SessionAction{Kind: kind})
		}
	}
	due(&s.Reported.Cancel, s.Lease().UntilCancel(p, now) <= 0, CancelTasks)
	due(&s.Reported.Kill, now.Reached(s.Acked, p.Kill), KillTasks)
	due(&s.Reported.Hard, s.Lease().UntilHard(p, now) <= 0, HardStop)
	return s, acts
}

// send decides what goes to the store now: at most one write or read at a time.
func (s Session) send(p Params, clock int64, now Instant) (Session, []SessionAction) {
	under := s.Reading || s.Write.Sent || s.Lineage.Verifying && s.Phase == Open
	if clock == 0 || under || now.HolderElapsed(s.RetryAt) < 0 {
		return s, nil
	}
	if s.Look {
		s.Reading = true
		return s, []SessionAction{{Kind: ReadSession}}
	}
	switch s.Phase {
	case Opening:
		return s.heartbeat(Live, clock, now)
	case Open:
		state := Live
		if s.Drain {
			state = Draining
		}
		if s.Write.Under || now.Reached(s.Acked, p.Heartbeat) || s.Drain != s.AnnouncedDraining {
			return s.heartbeat(state, clock, now)
		}
	case Ending:
		if !s.Write.Under {
			s.Write = SessionWrite{
				Under: true, IfRev: s.FoundRev, NewRev: DeadRev(s.FoundRev, clock), State: Dead, FirstSent: now,
			}
		}
		s.Write.Sent = true
		return s, []SessionAction{{Kind: MarkDead, IfRev: s.Write.IfRev, NewRev: s.Write.NewRev, State: Dead}}
	case Lost, Ended:
	}
	return s, nil
}

// heartbeat sends the next heartbeat, or the one under way again: the same condition and the same content, so that
// two copies are one write.
func (s Session) heartbeat(state State, clock int64, now Instant) (Session, []SessionAction) {
	if !s.Write.Under {
		s.Write = SessionWrite{
			Under: true, IfRev: s.Rev, NewRev: AliveRev(s.Rev, clock), Heartbeat: s.Heartbeat + 1, State: state,
			FirstSent: now,
		}
	}
	s.Write.Sent = true
	w := s.Write
	return s, []SessionAction{
		{Kind: SendHeartbeat, IfRev: w.IfRev, NewRev: w.NewRev, Heartbeat: w.Heartbeat, State: w.State},
	}
}
