package idempotency

// call is the part of one call of Do in one request, as a pure value: it takes events, and says what is to be done. It
// knows nothing of clocks, databases and contents.
type call struct {
	Rules rules
	Claim string // of this call, never used before
	Print string // the request's fingerprint

	Phase   phase
	Seen    seen // the record as last found
	Attempt int  // which one this call makes, from 1
	Before  State
	Version int64 // at which the own claim was written
}

// rules are what the caller chose.
type rules struct {
	Wait          bool // for a caller that is at work
	Recover       bool // call the work again after a failure
	Transactional bool // the record is in the transaction of the work
}

// seen is what a call needs to know of a record; the zero value: there is none.
type seen struct {
	Version     int64
	State       State
	Claim       string
	Print       string
	Attempt     int
	Interrupted bool
	Expired     bool
}

// phase is where a call stands.
type phase uint8

const (
	asking       phase = iota // nothing is written yet
	claiming                  // a write that makes the call the one that works
	looking                   // a read
	judging                   // is the owner dead?
	pausing                   // another is at work
	interrupting              // a write that says the caller before died half way
	working
	keeping // a write of how the work ended
	ended
)

// event is what happened.
type event struct {
	Kind    eventKind
	Seen    seen   // of found and refused
	Version int64  // of applied
	Dead    bool   // of judged
	Result  result // of returned
}

type eventKind uint8

const (
	asked    eventKind = iota
	applied            // the write under way
	refused            // the write under way: its condition did not hold
	busy               // the write under way: another transaction is at work
	unknown            // the write under way: not answered
	found              // a read
	judged             // the owner
	paused             // long enough
	returned           // the work
	gaveUp             // the caller's context has ended
)

// result is how the work ended.
type result uint8

const (
	succeeded result = iota
	failedWork
	noEffect // failed, and had no effect
)

// action is what is to be done.
type action struct {
	Kind    actionKind
	Over    int64 // the version that is written over
	Attempt int   // of Claim
}

type actionKind uint8

const (
	claimIt         actionKind = iota // write a record in the state Started
	markInterrupted                   // write Failed, interrupted
	keepIt                            // write how the work ended
	deleteClaim                       // remove the own record
	readIt                            // read the record
	judgeOwner                        // find out whether the record's owner is dead
	pause                             // wait a moment
	work                              // call the work
	// The call is over:
	endOwn         // with what the work returned
	endReplay      // with the reply that is kept
	endMismatch    // the ID was used for another request
	endBusy        // another is at work
	endFailed      // it failed before
	endInterrupted // its caller died half way
	endTakenOver   // the work is done, and the record is another's
	endNotKept     // the work is done, and what is kept of it is not known
	endUnknown     // nothing was done, or it is rolled back: a write was not answered
	endGaveUp      // the caller's context has ended
)

// ends says whether an action is the last.
func (k actionKind) ends() bool { return k >= endOwn }

// step takes an event. Events that do not fit the phase end the call with endUnknown: they are mistakes of the driver.
func (c call) step(e event) (call, action) {
	switch {
	case e.Kind == asked && c.Phase == asking:
		return c.claim(seen{})
	case e.Kind == gaveUp && (c.Phase == pausing || c.Phase == looking || c.Phase == judging):
		return c.end(endGaveUp)
	case e.Kind == found && c.Phase == looking:
		return c.decide(e.Seen)
	case e.Kind == judged && c.Phase == judging:
		return c.judge(e.Dead)
	case e.Kind == paused && c.Phase == pausing:
		c.Phase = looking
		return c, action{Kind: readIt}
	case e.Kind == returned && c.Phase == working:
		return c.keep(e.Result)
	}
	switch c.Phase {
	case claiming, interrupting, keeping:
		return c.answered(e)
	default:
		return c.end(endUnknown)
	}
}

func (c call) end(how actionKind) (call, action) {
	c.Phase = ended
	return c, action{Kind: how}
}

// claim writes over what was seen. What has expired counts as never seen.
func (c call) claim(s seen) (call, action) {
	c.Phase, c.Seen, c.Attempt, c.Before = claiming, s, 1, ""
	if s.Version != 0 && !s.Expired {
		c.Attempt, c.Before = s.Attempt+1, s.State
	}
	return c, action{Kind: claimIt, Over: s.Version, Attempt: c.Attempt}
}

// decide is about a record as it was found.
func (c call) decide(s seen) (call, action) {
	c.Seen = s
	switch {
	case s.Version == 0, s.Expired && s.State != Started:
		return c.claim(s)
	case s.Print != c.Print && !s.Expired:
		return c.end(endMismatch)
	case s.State == Done:
		return c.end(endReplay)
	case s.State == Started:
		c.Phase = judging
		return c, action{Kind: judgeOwner}
	case c.Rules.Recover:
		return c.claim(s)
	case s.Interrupted:
		return c.end(endInterrupted)
	}
	return c.end(endFailed)
}

// judge goes on from a record in the state Started.
func (c call) judge(dead bool) (call, action) {
	switch {
	case dead && (c.Rules.Recover || c.Seen.Expired):
		return c.claim(c.Seen)
	case dead:
		c.Phase = interrupting
		return c, action{Kind: markInterrupted, Over: c.Seen.Version}
	case c.Rules.Wait:
		c.Phase = pausing
		return c, action{Kind: pause}
	}
	return c.end(endBusy)
}

// keep goes on from the end of the work. In a transaction an error rolls all of it back, so nothing is to be written.
func (c call) keep(r result) (call, action) {
	if r != succeeded && c.Rules.Transactional {
		return c.end(endOwn)
	}
	c.Phase = keeping
	if r == noEffect && c.Before == "" {
		return c, action{Kind: deleteClaim, Over: c.Version}
	}
	return c, action{Kind: keepIt, Over: c.Version}
}

// answered goes on from the end of a write.
func (c call) answered(e event) (call, action) {
	switch {
	case e.Kind == unknown && c.Phase == keeping && !c.Rules.Transactional:
		return c.end(endNotKept)
	case e.Kind == unknown:
		return c.end(endUnknown)
	case e.Kind == applied && c.Phase == claiming:
		c.Phase, c.Version = working, e.Version
		return c, action{Kind: work}
	case e.Kind == applied && c.Phase == interrupting:
		return c.end(endInterrupted)
	case e.Kind == applied:
		return c.end(endOwn)
	case e.Kind == refused && c.Phase == keeping:
		return c.end(endTakenOver)
	case e.Kind == refused:
		return c.decide(e.Seen)
	case e.Kind == busy && c.Phase == claiming:
		return c.end(endBusy)
	}
	return c.end(endUnknown)
}
