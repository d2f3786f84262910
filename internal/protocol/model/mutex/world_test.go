package mutex_test

import (
	"slices"
	"time"

	"github.com/shardctl/shardctl/internal/protocol"
)

// Up to three processes with up to two sessions each, four calls, and one document. A lease is abstract here: a
// session may be marked dead once its process has learned of D, is frozen, or is gone. The model of sessions shows that
// this is so.

const (
	maxProcs    = 3
	maxSessions = 2 // of a process, one after the other
	maxCalls    = 4
	maxStrays   = 2
)

// state holds values that nothing changes in place, so that copies may share what they point to.
type state struct {
	store  protocol.MutexDoc
	old    protocol.MutexDoc // as it was before the last write
	high   int64             // the high-water mark
	time   int8              // seconds
	holdAt int8              // when the document's hold was written first
	right  bool              // it was set right since
	procs  [maxProcs]proc
	calls  [maxCalls]callState
	strays [maxStrays]message // copies that their sender does not wait for
	dead   [maxProcs][maxSessions]bool
	// the largest tokens granted: to one who is alone, to any, and in each slot
	largest, any int64
	slots        [2]int64
	budget       [faultKinds]int8
}

type proc struct {
	m      protocol.Mutex
	up     bool
	frozen bool
	valid  bool // its lease is
	opened int8 // sessions
	out    message
}

type messageKind uint8

const (
	noMessage messageKind = iota
	writes
	reads
)

// message is a request, or once it has landed its answer.
type message struct {
	kind    messageKind
	session string
	ifRev   int64
	doc     protocol.MutexDoc // to be written; landed: as found
	landed  bool
	status  protocol.Status
	floor   int64
}

type phase uint8

const (
	notAsked phase = iota
	waiting
	holding // granted and trusted
	untrusted
	over
)

type callState struct {
	phase    phase
	token    int64
	slot     int
	detached bool // it was asked to be
	kept     bool // and the document has shown it
	behind   bool // it does not wait, and one before it was not dead
	// While it waits: whether its process was shown the document since it was made, and at which revision first.
	look  protocol.CallLook
	seen  int64
	after [maxCalls]bool // calls that had seen an older document when it was made
	known int64          // with staleLook: the revision that its process knew when it was made
}

type fault uint8

const (
	loses fault = iota // a request or an answer
	doubles
	slows   // an answer, while others go on
	stales  // a list shows the document as it was
	freezes // a process
	expires // a lease, while its process goes on
	dies    // a process
	gives   // a call gives up
	deletes // the document, when no one uses it
	buries  // a bystander, who takes out the dead
	passes  // a second
	faultKinds
)

type budget map[fault]int8

// call is one call of Lock.
type call struct {
	p      int
	ask    protocol.MutexRequest
	detach bool
}

// setting is what does not change.
type setting struct {
	n       int // processes
	asks    []call
	back    bool // the store's clock is set back by a year from the first second on
	pad     int  // bytes that a claim's name is longer
	without weakening
}

// world is a state in which something happens.
type world struct {
	*setting
	state
	broken string
	say    func(format string, args ...any)
}

func (s *setting) begun(left budget) state {
	w := world{setting: s}
	for p := range s.n {
		w.procs[p] = proc{up: true}
		w.open(p)
	}
	for f, n := range left {
		w.budget[f] = n
	}
	w.normal()
	return w.state
}

func (w *world) breaks(promise string) {
	if w.broken == "" {
		w.broken = promise
	}
}

func sessionName(p int, n int8) string { return string(rune('A'+p)) + string(rune('0'+n)) }

func (w *world) session(p int) string { return w.procs[p].m.Session }

// gone says whether a session is known to be dead by its document.
func (w *world) gone(session string) bool {
	return session != "" && w.dead[session[0]-'A'][session[1]-'1']
}

func (w *world) claim(c int) string { return string(rune('a'+c)) + padding[:w.pad] }

func callOf(claim string) int { return int(claim[0] - 'a') }

// clock is the store's, in ms.
func (w *world) clock() int64 {
	if w.back && w.time > 0 {
		return aYear + int64(w.time)*1000
	}
	return 2*aYear + int64(w.time)*1000
}

// open gives a process its next session.
func (w *world) open(p int) {
	q := &w.procs[p]
	q.opened++
	q.valid = true
	if q.out.kind == writes {
		w.stray(q.out)
		q.out = message{}
	}
	w.step(p, protocol.MutexEvent{Kind: protocol.MutexRenamed, Session: sessionName(p, q.opened)})
}

// stray lets a copy go on alone, where the model has a place for it.
func (w *world) stray(m message) {
	for i := range w.strays {
		if w.strays[i].kind == noMessage && !m.landed {
			w.strays[i] = m
			return
		}
	}
}

// step is one event of one process.
func (w *world) step(p int, ev protocol.MutexEvent) {
	q := &w.procs[p]
	m := protocol.Moment{Clock: w.clock(), Rev: 1, Valid: q.valid || w.without == startsAfterD}
	m.Now = protocol.Instant{}.Add(time.Duration(w.time) * time.Second)
	if ev.Kind == protocol.MutexTicked {
		m.Now = m.Now.Add(time.Second / 2) // longer than any pause
	}
	ev.Doc = w.seen(p, ev.Doc)
	var acts []protocol.MutexAction
	q.m, acts = q.m.Step(ev, m)
	if ev.Kind == protocol.MutexTicked {
		q.m.Backoff.Until = protocol.Instant{}
	}
	for _, a := range acts {
		w.act(p, a)
	}
}

func (w *world) act(p int, a protocol.MutexAction) {
	switch a.Kind {
	case protocol.WriteMutex:
		w.looks(p)
		w.sends(p, a)
	case protocol.ReadMutex:
		w.looks(p)
		w.procs[p].out = message{kind: reads, session: w.session(p)}
	case protocol.MutexGranted:
		if w.without == startsUnanswered && w.calls[callOf(a.Claim)].phase == holding {
			return // it has started already
		}
		w.granted(callOf(a.Claim), a.Token, a.Slot)
	case protocol.MutexLost:
		w.says(p, "learns that %c is lost", a.Claim)
		c := &w.calls[callOf(a.Claim)]
		c.detached = false
		if c.phase == holding {
			c.phase = untrusted
		}
	case protocol.MutexDone:
		w.says(p, "learns that %c is given back", a.Claim)
		w.done(callOf(a.Claim))
	case protocol.MutexRefused:
		w.says(p, "learns that %c is refused", a.Claim)
		w.refused(callOf(a.Claim), a.Reason)
	case protocol.WantSession:
		if w.without == unseenAlive {
			w.step(p, protocol.MutexEvent{Kind: protocol.MutexAlive, Session: a.Session})
		}
	}
}

// sends puts a write on its way.
func (w *world) sends(p int, a protocol.MutexAction) {
	w.procs[p].out = message{kind: writes, session: w.session(p), ifRev: a.IfRev, doc: w.written(p, a.Doc)}
	switch {
	case w.without == deadLeft && buriesOnly(w.procs[p].m, a.Doc):
		w.procs[p].out = message{} // it is left out, and taken for done
		w.step(p, protocol.MutexEvent{Kind: protocol.MutexAnswered, Status: protocol.Applied, Seq: a.Seq})
	case w.without == startsUnanswered && a.Enter:
		for _, h := range a.Doc.Holders {
			if c := callOf(h.Claim); h.Token == a.Doc.Rev && w.calls[c].phase == waiting {
				w.granted(c, h.Token, h.Slot)
			}
		}
	}
}

func (w *world) says(p int, text, claim string) {
	if w.say != nil {
		w.say("%c "+text, 'A'+p, claim[0])
	}
}

// land lets a request happen at the store.
func (w *world) land(p int, m *message) {
	m.landed = true
	if m.kind == reads {
		m.doc, m.status = w.store, protocol.Applied
		if w.store.Rev == 0 {
			m.floor = w.high + 1
			if w.without == noHighMark {
				m.floor = 0
			}
		}
		return
	}
	if same := w.store.Rev == m.doc.Rev && w.procs[p].m.Session == m.session && sameDoc(w.store, m.doc); same {
		m.status = protocol.Applied // a copy of it has landed before
		return
	}
	unconditioned := w.without == claimsUnconditioned ||
		w.without == releasesUnconditioned && len(m.doc.Holders) < len(w.store.Holders)
	if w.store.Rev != m.ifRev && !unconditioned {
		m.status, m.doc = protocol.Refused, w.store
		return
	}
	m.status = protocol.Applied
	w.change(m)
}

func sameDoc(a, b protocol.MutexDoc) bool {
	return slices.Equal(a.Holders, b.Holders) && slices.Equal(a.Queue, b.Queue) && a.Hold == b.Hold
}

// change puts another document in the place of the one before.
func (w *world) change(m *message) {
	before := w.store
	w.store, w.old = m.doc, before
	w.high = max(w.high, m.doc.Rev)
	w.watch(before, m.doc, m.session)
	w.tries()
	is, was := m.doc.Hold, before.Hold
	wished := is.Token != was.Token
	for c := range w.calls {
		s := &w.calls[c]
		if s.detached && !s.kept && is.Token == s.token && !holds(m.doc, w.claim(c)) {
			s.kept, wished = true, true
		}
	}
	// What ends sooner, and nobody has wished, was set right.
	if !wished && is.UntilMs < was.UntilMs {
		w.right = true
	} else if is != was {
		w.holdAt, w.right = w.time, false
	}
}

// answer gives a process the answer to what it has under way.
func (w *world) answer(p int, status protocol.Status) {
	m := w.procs[p].out
	w.procs[p].out = message{}
	if status == protocol.Unknown && w.without == believesUnanswered && m.kind == writes {
		status = protocol.Applied
	}
	if status == protocol.Applied || status == protocol.Refused && m.doc.Rev > max(m.ifRev, w.procs[p].m.Doc.Rev-1) {
		w.looked(p, m.doc.Rev)
	}
	switch {
	case m.kind == reads && status == protocol.Unknown:
		w.step(p, protocol.MutexEvent{Kind: protocol.MutexUnread})
	case m.kind == reads:
		w.step(p, protocol.MutexEvent{Kind: protocol.MutexFound, Doc: m.doc, Sure: true, Floor: m.floor})
	case status == protocol.Refused:
		w.step(p, protocol.MutexEvent{
			Kind: protocol.MutexAnswered, Status: status, Doc: m.doc, Seq: w.procs[p].m.Write.Seq,
		})
	default:
		w.step(p, protocol.MutexEvent{Kind: protocol.MutexAnswered, Status: status, Seq: w.procs[p].m.Write.Seq})
	}
}
