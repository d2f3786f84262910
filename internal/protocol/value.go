package protocol

// Value is the value kept with a key, as one token reads and sets it. It has at most one read or write under way. The
// document is beside the lock. It notes the largest token that has read or set the value, its writer.
//
// The first read of a token writes that token into the document before it returns. A token that is smaller is refused
// from then on. What it has still under way is conditioned on a revision that is gone.
//
// The zero value with its Token set has seen nothing.
type Value struct {
	Token int64
	Rev   int64 // of the document, as last acknowledged or read; 0: absent
	// the document was acknowledged to carry Token at Rev, and no write of Token is unanswered
	Fenced  bool
	Op      ValueOp
	Reading bool
	Sent    bool // a write is under way, or is to be repeated
	IfRev   int64
	NewRev  int64
}

// ValueOp is what a caller wants of a value.
type ValueOp uint8

// What a caller may want.
const (
	NoValueOp ValueOp = iota
	GetValue          // the value; under a token that is not fenced yet it is written back with the token
	SetValue          // another value
)

// ValueEventKind is what happened to a value.
type ValueEventKind uint8

// What can happen to a value.
const (
	ValueWanted    ValueEventKind = iota // Op is wanted; only when nothing else is
	ValueRead                            // of a ReadDoc
	ValueAnswer                          // of a WriteDoc
	ValueAbandoned                       // the caller waits no longer
)

// ValueEvent is an event for a value. Which fields count depends on Kind.
type ValueEvent struct {
	Kind   ValueEventKind
	Op     ValueOp
	Status Status // ValueAnswer
	OK     bool   // ValueRead: the read succeeded
	Rev    int64  // ValueRead: as read; 0: absent
	Writer int64  // ValueRead: the token in the document
	Clock  int64  // the store's time in ms as last reported, for new revisions
}

// ValueActionKind is what a value wants done.
type ValueActionKind uint8

// What a value wants done.
const (
	NoValueAction ValueActionKind = iota
	ReadDoc                       // read the document, linearizably
	// WriteDoc: compare-and-set of the document from IfRev to NewRev, with Token. Its value is the new one, or for a
	// GetValue the one just read.
	WriteDoc
	ValueDone // what was wanted has happened
	ValueLost // a larger token has read or set the value
)

// ValueAction is the one thing to do.
type ValueAction struct {
	Kind          ValueActionKind
	IfRev, NewRev int64
	Repeat        bool // the very same again, since it was not answered
}

// Step is one event.
func (v Value) Step(ev ValueEvent) (Value, ValueAction) {
	switch ev.Kind {
	case ValueWanted:
		if v.Op = ev.Op; ev.Op == SetValue && v.Fenced {
			return v.write(ev.Clock)
		}
		return v.read()
	case ValueRead:
		if v.Reading && !ev.OK {
			return v, ValueAction{Kind: ReadDoc, Repeat: true}
		}
		if v.Reading {
			v.Reading = false
			return v.seen(ev)
		}
	case ValueAnswer:
		if v.Sent {
			return v.answer(ev)
		}
	case ValueAbandoned:
		// What is unanswered may land until the document is written again.
		v.Fenced = v.Fenced && !v.Sent
		return v.over(NoValueAction)
	}
	return v, ValueAction{}
}

func (v Value) seen(ev ValueEvent) (Value, ValueAction) {
	v.Rev = ev.Rev
	switch {
	case ev.Writer > v.Token:
		v.Fenced = false
		return v.over(ValueLost)
	case v.Op == GetValue && v.Fenced && ev.Writer == v.Token:
		return v.over(ValueDone)
	}
	return v.write(ev.Clock)
}

func (v Value) answer(ev ValueEvent) (Value, ValueAction) {
	switch ev.Status {
	case Unknown:
		return v, ValueAction{Kind: WriteDoc, IfRev: v.IfRev, NewRev: v.NewRev, Repeat: true}
	case Refused:
		v.Sent, v.Fenced = false, false
		return v.read()
	case Applied, Unwritable:
	}
	v.Rev, v.Fenced = v.NewRev, true
	return v.over(ValueDone)
}

func (v Value) read() (Value, ValueAction) {
	v.Reading = true
	return v, ValueAction{Kind: ReadDoc}
}

func (v Value) write(clock int64) (Value, ValueAction) {
	v.Sent, v.IfRev, v.NewRev = true, v.Rev, NextRev(v.Rev, clock)
	return v, ValueAction{Kind: WriteDoc, IfRev: v.IfRev, NewRev: v.NewRev}
}

func (v Value) over(what ValueActionKind) (Value, ValueAction) {
	v.Op, v.Reading, v.Sent, v.IfRev, v.NewRev = NoValueOp, false, false, 0, 0
	return v, ValueAction{Kind: what}
}
