package protocol_test

import (
	"slices"
	"testing"
	"time"

	"github.com/shardctl/shardctl/internal/protocol"
)

// rig is a machine of one process beside a document that a test may change.
type rig struct {
	*testing.T
	protocol.Mutex
	at    protocol.Moment
	acts  []protocol.MutexAction // of the last event
	store protocol.MutexDoc
}

func newRig(t *testing.T, session string) *rig {
	t.Helper()
	return &rig{
		T: t, Mutex: protocol.Mutex{Session: session},
		at: protocol.Moment{Now: instant(time.Hour), Clock: 1000, Rev: 1000, Valid: true},
	}
}

func (r *rig) do(ev protocol.MutexEvent) {
	r.Mutex, r.acts = r.Step(ev, r.at)
}

func (r *rig) on(kind protocol.MutexEventKind) { r.do(protocol.MutexEvent{Kind: kind}) }

func (r *rig) ask(claim string, ask protocol.MutexRequest) {
	r.do(protocol.MutexEvent{Kind: protocol.MutexAsked, Claim: claim, Request: ask})
}

func (r *rig) event(kind protocol.MutexEventKind, claim string) {
	r.do(protocol.MutexEvent{Kind: kind, Claim: claim})
}

func (r *rig) died(session string) {
	r.do(protocol.MutexEvent{Kind: protocol.MutexDied, Session: session})
}

// serve lets the store answer whatever the machine asks for, until it asks for nothing. It returns what was answered to
// calls and wanted since.
func (r *rig) serve() []protocol.MutexAction {
	r.Helper()
	var answers []protocol.MutexAction
	for range 100 {
		acts := r.acts
		r.acts = nil
		for _, a := range acts {
			switch a.Kind {
			case protocol.ReadMutex:
				r.do(protocol.MutexEvent{Kind: protocol.MutexFound, Doc: r.store, Sure: true, Floor: 1000})
			case protocol.WriteMutex:
				r.answer(a, r.apply(a))
			default:
				answers = append(answers, a)
			}
		}
		if d, pauses := r.Due(r.at); len(r.acts) == 0 && pauses && d < 100*time.Millisecond {
			r.at.Now = r.at.Now.Add(d)
			r.on(protocol.MutexTicked)
		}
		if len(r.acts) == 0 {
			return answers
		}
	}
	r.Fatalf("never done: %+v", r.Mutex)
	return nil
}

// others is a write of somebody else, who puts tickets into the queue.
func (r *rig) others(tickets ...protocol.MutexTicket) {
	for _, t := range tickets {
		t.Seen = r.store.Rev
		r.store = r.store.Queued(t)
	}
	r.store.Rev++
}

func (r *rig) apply(a protocol.MutexAction) protocol.Status {
	r.Helper()
	if a.Doc.Rev <= a.IfRev {
		r.Fatalf("%+v does not rise", a)
	}
	if r.store.Rev != a.IfRev {
		return protocol.Refused
	}
	r.store = a.Doc
	return protocol.Applied
}

func (r *rig) answer(a protocol.MutexAction, status protocol.Status) {
	ev := protocol.MutexEvent{Kind: protocol.MutexAnswered, Status: status, Seq: a.Seq}
	if status == protocol.Refused {
		ev.Doc = r.store
	}
	r.do(ev)
}

// only is the one action of this kind, which must be there.
func only(t *testing.T, acts []protocol.MutexAction, kind protocol.MutexActionKind) protocol.MutexAction {
	t.Helper()
	var found []protocol.MutexAction
	for _, a := range acts {
		if a.Kind == kind {
			found = append(found, a)
		}
	}
	if len(found) != 1 {
		t.Fatalf("%d actions of kind %d, want 1: %+v", len(found), kind, acts)
	}
	return found[0]
}

func none(t *testing.T, acts []protocol.MutexAction, kinds ...protocol.MutexActionKind) {
	t.Helper()
	for _, a := range acts {
		if slices.Contains(kinds, a.Kind) {
			t.Errorf("unwanted: %+v", a)
		}
	}
}

func exclusive() protocol.MutexRequest { return protocol.MutexRequest{Limit: 1} }

func TestMutexIsTakenAndGivenBack(t *testing.T) {
	r := newRig(t, "A")
	r.ask("a1", exclusive())
	only(t, r.acts, protocol.ReadMutex)
	granted := only(t, r.serve(), protocol.MutexGranted)
	if granted.Token != r.store.Rev || r.store.Session() != "A" || r.store.Expires(1000) != 0 {
		t.Errorf("granted %+v, document %+v", granted, r.store)
	}
	r.event(protocol.MutexReleased, "a1")
	only(t, r.serve(), protocol.MutexDone)
	if r.store.Session() != "" || r.store.Expires(1000) != 1000+24*60*60*1000 || !r.Idle() {
		t.Errorf("document %+v, machine %+v", r.store, r.Mutex)
	}
	r.ask("a2", exclusive())
	none(t, r.acts, protocol.ReadMutex) // one write is enough
	if again := only(t, r.serve(), protocol.MutexGranted); again.Token <= granted.Token {
		t.Errorf("token %d after %d", again.Token, granted.Token)
	}
}

// Two processes on one document.
func pair(t *testing.T) (a, b *rig) {
	t.Helper()
	return newRig(t, "A"), newRig(t, "B")
}

func (r *rig) sees(other *rig) []protocol.MutexAction {
	r.store = other.store
	r.on(protocol.MutexLook)
	return r.serve()
}

func TestMutexIsHandedOver(t *testing.T) {
	a, b := pair(t)
	a.ask("a1", exclusive())
	a.serve()
	b.store = a.store
	b.ask("b1", exclusive())
	none(t, b.serve(), protocol.MutexGranted)
	if len(b.store.Queue) != 1 || b.store.Next != "" {
		t.Fatalf("want a ticket and no one next: %+v", b.store)
	}
	a.store = b.store
	a.event(protocol.MutexReleased, "a1")
	only(t, a.serve(), protocol.MutexDone) // refused once, then on the document as found
	if a.store.Next != "B" || len(a.store.Holders) != 0 || len(a.store.Queue) != 1 {
		t.Fatalf("only the receiver makes itself a holder: %+v", a.store)
	}
	token := only(t, b.sees(a), protocol.MutexGranted).Token
	if b.store.Session() != "B" || len(b.store.Queue) != 0 || b.store.Next != "" || token != b.store.Rev {
		t.Errorf("token %d, document %+v", token, b.store)
	}
}

// A refusal rests on the document of now, not on one that was known before the call.
func TestMutexIsNotRefusedForWhatIsOld(t *testing.T) {
	r := newRig(t, "a")
	r.store = protocol.MutexDoc{
		Rev: 2000, Limit: 2, Holders: []protocol.MutexHolder{{Session: "b", Claim: "b1", Token: 2000}}, Exclusive: 2000,
	}
	r.ask("a1", exclusive())
	if refused := only(t, r.serve(), protocol.MutexRefused); refused.Reason != protocol.LimitDiffers {
		t.Errorf("%+v", refused)
	}
	r.store.Holders, r.store.Rev = nil, 2001
	r.ask("a2", exclusive())
	only(t, r.serve(), protocol.MutexGranted)
}
