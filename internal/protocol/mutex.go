package protocol

import (
	"slices"
	"time"
)

// Mutex is the part of one process in one mutex, read-write lock or semaphore: the calls of this process, the document
// as last known, and at most one write or read under way. It is a value: [Mutex.Step] leaves the one before as it was.
// The zero value with its Session set has no calls and knows nothing.
type Mutex struct {
	Session string // this process's; empty: none is open
	Calls   MutexCalls

	Known   bool // Doc is the document as last read, refused or written
	Doc     MutexDoc
	Floor   int64 // Doc is absent: revisions must not be below it
	Reading bool  // a read is under way
	Unread  bool  // it failed: again at the next tick
	// Verifying: the store follows another lineage, and holders have to be compared with a read.
	Verifying bool

	Write    MutexWrite
	Seq      int64 // of the last write
	Backoff  MutexBackoff
	Sessions MutexSessions
	// Seen is the hold of the document and when this process saw it first.
	Seen   MutexHold
	SeenAt Instant
}

// MutexBackoff is what refused writes leave.
type MutexBackoff struct {
	Refusals int     // in a row
	Until    Instant // new tickets alone are not written before
	Pause    bool    // a write was refused although nothing had changed: none before the next tick
}

// MutexSessions is what is known of the sessions that the document names.
type MutexSessions struct {
	Dead   []string // known to be dead
	Wanted []string // those asked for
	Alive  []string // of these, the ones that were seen since, and are not known to be dead
}

// MutexWrite is the write under way. An unanswered one is repeated as it is.
type MutexWrite struct {
	Under bool // one is under way or must be repeated
	Sent  bool // a copy is out and not answered
	Seq   int64
	IfRev int64
	Doc   MutexDoc // with the revision that it makes
	Enter bool     // it makes a holder
}

// MutexRequest is what a call asks for.
type MutexRequest struct {
	Limit  int  // 1: a mutex; n: a semaphore; 0: a read-write lock
	Shared bool // with Limit 0: to read
	Unfair bool // enters over the queue where the mutex is free and Next names no one
	Try    bool // does not wait
	// MaxHold ends the call's hold after so long; 0: never.
	MaxHold time.Duration
	// AtLeast keeps others out for so long from the claim on, also after the release; 0: not. Only for a holder that is
	// alone.
	AtLeast time.Duration
}

// alone says whether no one holds the mutex beside the one who asks so.
func (a MutexRequest) alone() bool { return a.Limit == 1 || a.Limit == 0 && !a.Shared }

// CallPhase is where a call stands.
type CallPhase uint8

// The phases of a call.
const (
	CallWaiting CallPhase = iota
	CallHolding           // it was granted
	CallLost              // its hold cannot be trusted any more, and it was not released yet
	CallLeaving           // it was released: its holder is being taken out
)

// MutexCall is one call of Lock, named by its claim. No two calls of any process have one claim.
type MutexCall struct {
	Claim   string
	Request MutexRequest
	Phase   CallPhase
	Token   int64     // once granted
	Since   Instant   // once granted: when
	Keep    MutexHold // leaving: what keeps the mutex instead
	Look    CallLook
	Seen    int64 // Looked: the revision of the document then; 0: it was absent
}

// CallLook says whether the document was looked at since the call was made.
type CallLook uint8

// Whether the document was looked at.
const (
	NotLooked CallLook = iota
	Looking            // a write or read that began since is under way
	Looked
)

// MutexEventKind is what happened to a mutex.
type MutexEventKind uint8

// What can happen to a mutex.
const (
	MutexTicked         MutexEventKind = iota // time has passed: repeat what was not answered
	MutexAsked                                // a call waits: Claim, Ask
	MutexGaveUp                               // a call does not wait any more; what was granted meanwhile is released
	MutexReleased                             // a holder is done
	MutexDetached                             // a holder is done, and Keep is to keep the mutex
	MutexFound                                // Doc was read
	MutexUnread                               // the read failed
	MutexLook                                 // the document may have changed: read it
	MutexAnswered                             // of a WriteMutex
	MutexDied                                 // Session is known to be dead
	MutexAlive                                // Session was seen, and is not known to be dead
	MutexExpired                              // D has come, or the session is lost: every hold is
	MutexRenamed                              // the session before is over, nothing of it runs; Session is the new one
	MutexLineageChanged                       // the store follows another lineage
)

// MutexEvent is an event for a mutex. Which fields count depends on Kind.
type MutexEvent struct {
	Kind    MutexEventKind
	Claim   string
	Request MutexRequest
	Keep    MutexHold // MutexDetached: UntilMs and ForMs
	Session string
	// MutexFound: as read, Rev 0 when absent. MutexAnswered: as found by a refusal.
	Doc MutexDoc
	// Sure says that Doc comes from a linearizable read. One that does not may be old.
	Sure bool
	// Floor is what the revision of a new document must not be below: above the high-water mark. MutexFound of an
	// absent document that is Sure.
	Floor  int64
	Status Status // MutexAnswered
	Seq    int64  // MutexAnswered: of the write
}

// MutexReason is why a call was refused or lost.
type MutexReason uint8

// Why a call was refused or lost.
const (
	NoReason        MutexReason = iota
	MutexBusy                   // refused: it does not wait, and would have to
	QueueFull                   // refused: MaxTickets, or MaxMutexSize
	LimitDiffers                // refused: it is in use with another limit
	NotAlone                    // refused: to keep a mutex is for a holder that is alone
	LeaseExpired                // lost: the lease can no longer be trusted
	HeldTooLong                 // lost: MaxHold is over
	HolderGone                  // lost: the document does not show the holder any more
	MutexUnwritable             // refused: no store could take the write
)

// MutexActionKind is what a mutex wants done.
type MutexActionKind uint8

// What a mutex wants done.
const (
	// WriteMutex: compare-and-set of the document from IfRev to Doc.Rev; a repeat is the very same write
	WriteMutex MutexActionKind = iota
	// ReadMutex: read the document, linearizably; where it is absent the high-water mark and the time as well
	ReadMutex
	MutexGranted // Claim holds the mutex under Token, in Slot
	MutexRefused // Claim was refused for Reason; a refused detachment leaves the holder as it was
	MutexLost    // Claim can no longer be trusted, for Reason; it is still to be released
	MutexDone    // Claim, released or detached, is gone from the document
	WantSession  // whether Session lives has to be known: MutexAlive once it was seen, MutexDied once it is dead
)

// MutexAction is one thing to do.
type MutexAction struct {
	Kind    MutexActionKind
	Claim   string
	Token   int64
	Slot    int
	Reason  MutexReason
	Session string

	Seq   int64
	IfRev int64
	Doc   MutexDoc
	Enter bool // WriteMutex: it makes a holder, who may start once it is applied
}

// Step is one event at one moment.
func (x Mutex) Step(ev MutexEvent, m Moment) (Mutex, []MutexAction) {
	x.Calls = slices.Clone(x.Calls)
	s := mutexStep{Mutex: x, m: m, tick: ev.Kind == MutexTicked}
	s.take(ev)
	s.settle()
	s.overdue()
	s.send(ev)
	next, wanted := s.wants()
	for _, session := range wanted {
		s.act(MutexAction{Kind: WantSession, Session: session})
	}
	return next, s.acts
}

// WithClock gives the write under way, and the tokens in it, the revision of this moment. Only its first copy may be
// given one, before it is sent: a repeat is the very same write.
func (x Mutex) WithClock(clock int64) Mutex {
	before := x.Write.Doc.Rev
	if !x.Write.Under || clock <= before {
		return x
	}
	d := x.Write.Doc
	d.Rev = clock
	d.Holders = slices.Clone(d.Holders)
	for i := range d.Holders {
		if d.Holders[i].Token == before {
			d.Holders[i].Token = clock
		}
	}
	for _, token := range []*int64{&d.Hold.Token, &d.Exclusive, &d.Shared} {
		if *token == before {
			*token = clock
		}
	}
	x.Write.Doc = d
	return x
}

// Dated notes in the holders that the write under way makes since when they hold, by the store's clock in Unix ms. It
// is for display. As of [Mutex.WithClock], only the first copy of a write may be given it, before it is sent.
func (x Mutex) Dated(clock int64) Mutex {
	if !x.Write.Enter || clock <= 0 {
		return x
	}
	x.Write.Doc.Holders = slices.Clone(x.Write.Doc.Holders)
	for i := range x.Write.Doc.Holders {
		if h := &x.Write.Doc.Holders[i]; h.Token == x.Write.Doc.Rev {
			h.Since = clock
		}
	}
	return x
}

// Idle says whether the machine may be forgotten: no call, nothing under way, and nothing of this session in the
// document as far as it is known.
func (x Mutex) Idle() bool {
	if len(x.Calls) > 0 || x.Write.Under || x.Reading || x.Verifying {
		return false
	}
	mine := false
	x.Doc.Sessions(func(session string) { mine = mine || session == x.Session })
	return !mine
}

// Running is how many holds were granted and not released yet, the lost ones included.
func (x Mutex) Running() int {
	n := 0
	for _, c := range x.Calls {
		if c.Phase == CallHolding || c.Phase == CallLost {
			n++
		}
	}
	return n
}

// Due is how long it takes until time alone changes something; false: time alone changes nothing. Writes and reads
// that were not answered are repeated at any tick, and not counted.
func (x Mutex) Due(m Moment) (time.Duration, bool) {
	due, found := time.Duration(0), false
	at := func(d time.Duration) {
		if !found || d < due {
			due, found = max(d, 0), true
		}
	}
	waiting := false
	for _, c := range x.Calls {
		waiting = waiting || c.Phase == CallWaiting
		if c.Phase == CallHolding && c.Request.MaxHold > 0 {
			at(c.Request.MaxHold - m.Now.HolderElapsed(c.Since))
		}
	}
	if waiting && x.Known && x.Doc.Hold != (MutexHold{}) && !x.holdOver(m) {
		at(ms(x.Doc.Hold.UntilMs - m.Clock))
		at(ms(x.Doc.Hold.ForMs) - m.Now.KillerElapsed(x.SeenAt))
	}
	if d := -m.Now.HolderElapsed(x.Backoff.Until); waiting && d > 0 {
		at(d)
	}
	return due, found
}

// holdOver says whether the document's hold keeps no one out any more.
func (x Mutex) holdOver(m Moment) bool {
	h := x.Doc.Hold
	return h == MutexHold{} || m.Clock >= h.UntilMs || x.Seen == h && m.Now.KillerElapsed(x.SeenAt) >= ms(h.ForMs)
}

func ms(n int64) time.Duration { return time.Duration(n) * time.Millisecond }
