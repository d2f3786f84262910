package protocol

// KeyPhase is where a key stands in this process.
type KeyPhase uint8

// The phases of a key.
const (
	Free      KeyPhase = iota // not ours, as far as we know
	Claiming                  // a claim is under way, or the read before it: it counts against the cap
	Idle                      // ours and not running: the lease was not valid; adopted when it is again
	Running                   // its callback runs
	Stopping                  // its callback was asked to stop and has not returned
	Releasing                 // its callback has returned: the release is under way
)

// KeyOp is the write that a key has under way.
type KeyOp uint8

// The writes of a key.
const (
	NoOp    KeyOp = iota
	Claim         // session: me; the revision written is the token
	Advance       // a new token for a new start, with the status
	Report        // the status
	Release       // session: none
)

// Key is one key in this process as a state machine, with at most one write under way. The zero value is free.
type Key struct {
	Phase     KeyPhase
	Rev       int64 // of the lock, as last acknowledged
	Token     int64 // of the last acknowledged claim or advance
	Op        KeyOp
	Sent      bool // a copy of Op is out and not answered
	IfRev     int64
	NewRev    int64
	GiveUp    bool // wanted: release once nothing runs
	Lost      bool // no longer ours: nothing may be written
	Expired   bool // stopped by the deadline: ours still, adopted once the lease is valid again
	Advance   bool // wanted
	Report    bool // wanted
	Check     bool // a refusal is to be understood by a read
	Reading   bool
	Verifying bool // the store follows another lineage: only a read says whether the lock is still as it was
}

// KeyEventKind is what happened to a key.
type KeyEventKind uint8

// What can happen to a key.
const (
	KeyTick           KeyEventKind = iota // time has passed: repeat what was not answered
	KeyClaim                              // take it: the lock as read at Rev is free, of a dead session, or says me
	KeyAnswer                             // of a WriteKey
	KeyRead                               // of a ReadKey
	KeyReturned                           // its callback has returned and nothing of it is left
	KeyGiveUp                             // stop it and release
	KeyAdvance                            // a new token is wanted
	KeyReport                             // a new status is to be noted
	KeyDeadline                           // D has come
	KeyResume                             // the lease is valid again
	KeyLose                               // the session is lost, or the lock names somebody else
	KeyLineageChanged                     // the store follows another lineage
)

// KeyEvent is an event for a key. Which fields count depends on Kind.
type KeyEvent struct {
	Kind   KeyEventKind
	Status Status
	OK     bool  // KeyRead: the read succeeded
	Mine   bool  // KeyRead: the lock names this session
	Ours   bool  // KeyRead: and it is as the write under way left it, by the writer ID
	Exact  bool  // KeyRead: and it is as the last acknowledged write left it, by the writer ID
	Rev    int64 // KeyClaim, KeyRead: as read; 0: absent
	// the store's time in ms as last reported, for new revisions; KeyRead of an absent lock: and above the high-water
	// mark
	Clock int64
	Valid bool // whether the lease is valid now
}

// KeyActionKind is what a key wants done.
type KeyActionKind uint8

// What a key wants done.
const (
	// WriteKey: compare-and-set of the lock from IfRev to NewRev as Op says; a repeat is the very same write
	WriteKey KeyActionKind = iota
	// ReadKey: read the lock, linearizably; before a creation the group's high-water mark and the time as well
	ReadKey
	StartKey // start the callback with Token
	StopKey  // ask the callback to stop
	KillKey  // the key is not ours: end the callback by force
	Advanced // Token is the new token; 0: there is none, since no store could take the write
	KeyOff   // the key is free here: Refused says that a claim did not succeed
)

// KeyAction is one thing to do.
type KeyAction struct {
	Kind          KeyActionKind
	Op            KeyOp
	IfRev, NewRev int64
	Token         int64
	Refused       bool
}

// WithClock gives the write under way the revision of this moment. Only its first copy may be given one, before it is
// sent: a repeat is the very same write.
func (k Key) WithClock(clock int64) Key {
	k.NewRev = NextRev(k.IfRev, clock)
	return k
}

// Step is one event.
func (k Key) Step(ev KeyEvent) (Key, []KeyAction) {
	var acts []KeyAction
	switch ev.Kind {
	case KeyClaim:
		if k.Phase == Free {
			k = Key{Phase: Claiming, Rev: ev.Rev}
			return k.claim(ev.Clock)
		}
	case KeyAnswer:
		k, acts = k.answer(ev)
	case KeyRead:
		k, acts = k.read(ev)
	case KeyReturned:
		k, acts = k.returned()
	case KeyGiveUp:
		k, acts = k.giveUp()
	case KeyAdvance:
		k.Advance = true
	case KeyReport:
		k.Report = true
	case KeyDeadline:
		if k.Phase == Running {
			k.Phase, k.Expired = Stopping, true
			acts = append(acts, KeyAction{Kind: StopKey})
		}
	case KeyResume:
		k.Expired = k.Expired && k.Phase == Stopping
	case KeyLose:
		k, acts = k.lose()
	case KeyLineageChanged:
		k, acts = k.lineageChanged()
	case KeyTick:
	}
	k, more := k.next(ev)
	return k, append(acts, more...)
}

func (k Key) answer(ev KeyEvent) (Key, []KeyAction) {
	if k.Op == NoOp || !k.Sent {
		return k, nil
	}
	k.Sent = false
	switch ev.Status {
	case Unknown:
		return k, nil // repeated at the next tick
	case Refused:
		if k.Op == Claim && k.Token == 0 {
			return k.off(true)
		}
		k.Check = true
		return k, nil
	case Unwritable:
		return k.unwritable()
	case Applied:
	}
	return k.applied(ev.Valid)
}

// unwritable gives up the write under way. A lock that names this session is not forgotten for that: its release, and
// its claim after an outage, are made again, and must say something else.
func (k Key) unwritable() (Key, []KeyAction) {
	op := k.Op
	k.Op = NoOp
	switch {
	case op == Claim && k.Token == 0:
		return k.off(false)
	case op == Claim:
		k.Phase = Idle
	case op == Advance:
		return k, []KeyAction{{Kind: Advanced}}
	}
	return k, nil
}

func (k Key) applied(valid bool) (Key, []KeyAction) {
	op := k.Op
	k.Op, k.Rev = NoOp, k.NewRev
	switch op {
	case Claim:
		k.Token = k.Rev
		switch {
		case k.GiveUp:
			k.Phase = Releasing
		case valid:
			k.Phase = Running
			return k, []KeyAction{{Kind: StartKey, Token: k.Token}}
		default:
			k.Phase = Idle
		}
	case Advance:
		k.Token = k.Rev
		return k, []KeyAction{{Kind: Advanced, Token: k.Token}}
	case Release:
		return k.off(false)
	case Report, NoOp:
	}
	return k, nil
}

func (k Key) read(ev KeyEvent) (Key, []KeyAction) {
	if !k.Reading {
		return k, nil
	}
	k.Reading = false
	if !ev.OK {
		return k, nil
	}
	k.Check = false
	if k.Verifying {
		return k.compared(ev)
	}
	switch {
	case k.Seeking() && ev.Rev == 0:
		return k.write(Claim, ev.Clock)
	case k.Seeking():
		return k.off(true) // it is there
	case ev.Mine && ev.Ours && k.Op == Claim && ev.Rev == k.NewRev:
		return k.landed() // and refused all the same
	case ev.Mine && ev.Ours && k.Op != NoOp && ev.Rev == k.NewRev:
		return k.applied(ev.Valid)
	case ev.Mine:
		// Somebody wrote it manually; it still says me. The same again, on what is there now.
		op := k.Op
		k.Rev, k.Op = ev.Rev, NoOp
		k.Advance = k.Advance || op == Advance
		k.Report = k.Report || op == Report
		return k, nil
	case k.Phase == Running || k.Phase == Stopping:
		return k.lose()
	}
	return k.off(k.Phase == Claiming)
}

// lineageChanged begins to compare the lock with another lineage. A claim that has given no token yet is given up: what
// it rests on may be forgotten.
func (k Key) lineageChanged() (Key, []KeyAction) {
	switch {
	case k.Phase == Free || k.Lost:
		return k, nil
	case k.Phase == Claiming && k.Token == 0:
		return k.off(true)
	}
	// the answer to a copy says nothing any more, and one that waits must not go out before
	k.Verifying, k.Sent = true, false
	if k.Reading {
		return k, nil
	}
	k.Reading = true
	return k, []KeyAction{{Kind: ReadKey}}
}

// compared takes the lock as it is in another lineage. The key is kept when the lock is exactly as the last
// acknowledged write left it, or the one under way. A claim found so is not started: it is made again.
func (k Key) compared(ev KeyEvent) (Key, []KeyAction) {
	k.Verifying = false
	switch {
	case ev.Mine && ev.Ours && k.Op == Claim && ev.Rev == k.NewRev:
		return k.landed()
	case ev.Mine && ev.Ours && k.Op != NoOp && ev.Rev == k.NewRev:
		return k.applied(ev.Valid)
	case ev.Mine && ev.Exact && ev.Rev == k.Rev:
		return k, nil
	case k.Phase == Running || k.Phase == Stopping:
		return k.lose()
	}
	return k.off(k.Phase == Claiming)
}

// landed takes a claim that was found written, and does not count: the store may have forgotten what it rests on. It is
// made again, on top of what is there, with a larger token.
func (k Key) landed() (Key, []KeyAction) {
	k.Op, k.Sent, k.Rev, k.Token, k.Phase = NoOp, false, k.NewRev, k.NewRev, Idle
	if k.GiveUp {
		k.Phase = Releasing
	}
	return k, nil
}

func (k Key) returned() (Key, []KeyAction) {
	if k.Phase != Running && k.Phase != Stopping {
		return k, nil
	}
	k.Advance = false
	switch {
	case k.Lost:
		return k.off(false)
	case k.Expired && !k.GiveUp:
		k.Phase = Idle
	default:
		k.Phase = Releasing
	}
	k.Expired = false
	return k, nil
}

func (k Key) giveUp() (Key, []KeyAction) {
	k.GiveUp = k.Phase != Free
	switch k.Phase {
	case Running:
		k.Phase = Stopping
		return k, []KeyAction{{Kind: StopKey}}
	case Idle:
		k.Phase = Releasing
	case Free, Claiming, Stopping, Releasing:
	}
	return k, nil
}

func (k Key) lose() (Key, []KeyAction) {
	switch k.Phase {
	case Running, Stopping:
		if k.Lost {
			return k, nil
		}
		k.Phase, k.Lost = Stopping, true
		k.Op, k.Sent, k.Check, k.Reading, k.Verifying = NoOp, false, false, false, false
		return k, []KeyAction{{Kind: KillKey}}
	case Claiming, Idle, Releasing:
		return k.off(k.Phase == Claiming)
	case Free:
	}
	return k, nil
}

func (k Key) off(refused bool) (Key, []KeyAction) {
	return Key{}, []KeyAction{{Kind: KeyOff, Refused: refused}}
}

// next decides what goes to the store now: one write or read at a time, a release before anything else.
func (k Key) next(ev KeyEvent) (Key, []KeyAction) {
	if k.Phase == Free || k.Lost || k.Reading {
		return k, nil
	}
	if k.Verifying {
		if ev.Kind != KeyTick {
			return k, nil // a read that failed waits for the tick
		}
		k.Reading = true
		return k, []KeyAction{{Kind: ReadKey}}
	}
	if k.Sent {
		return k, nil
	}
	if k.Op != NoOp {
		if ev.Kind != KeyTick && (ev.Kind != KeyAnswer || !k.Check) {
			return k, nil // a repeat, also of a read that failed, waits for the tick
		}
		if k.Check {
			k.Reading = true
			return k, []KeyAction{{Kind: ReadKey}}
		}
		k.Sent = true
		return k, []KeyAction{{Kind: WriteKey, Op: k.Op, IfRev: k.IfRev, NewRev: k.NewRev}}
	}
	switch {
	case k.Phase == Releasing:
		return k.write(Release, ev.Clock)
	case k.Seeking() && ev.Kind != KeyTick:
		// The read before a creation failed: it is repeated at the tick.
	case k.Phase == Claiming:
		return k.claim(ev.Clock)
	case k.Phase == Idle && ev.Valid:
		k.Phase = Claiming
		return k.write(Claim, ev.Clock)
	case k.Phase == Running && k.Advance:
		k.Advance, k.Report = false, false
		return k.write(Advance, ev.Clock)
	case (k.Phase == Running || k.Phase == Stopping) && k.Report:
		k.Report = false
		return k.write(Report, ev.Clock)
	}
	return k, nil
}

// claim writes the claim. A lock that is absent may have been there before: only a read says what its token must
// exceed.
func (k Key) claim(clock int64) (Key, []KeyAction) {
	if k.Rev == 0 {
		k.Reading = true
		return k, []KeyAction{{Kind: ReadKey}}
	}
	return k.write(Claim, clock)
}

// Seeking says whether the key waits for the read before the creation of its lock, or for the time to repeat it.
func (k Key) Seeking() bool { return k.Phase == Claiming && k.Op == NoOp && k.Rev == 0 }

func (k Key) write(op KeyOp, clock int64) (Key, []KeyAction) {
	k.Op, k.Sent, k.IfRev, k.NewRev = op, true, k.Rev, NextRev(k.Rev, clock)
	return k, []KeyAction{{Kind: WriteKey, Op: op, IfRev: k.IfRev, NewRev: k.NewRev}}
}
