package engine

import (
	"slices"
	"testing"
	"time"

	"github.com/shardctl/shardctl/internal/protocol"
	"github.com/shardctl/shardctl/internal/record"
	"github.com/shardctl/shardctl/pkg/store/driver"
)

// posted keeps what is sent until a test answers.
type posted struct {
	ops     []string
	changes [][]driver.Change
	then    []func(Answer)
}

func (p *posted) send(r ApplyRequest, then func(Answer)) {
	p.ops, p.changes, p.then = append(p.ops, r.Op), append(p.changes, r.Changes), append(p.then, then)
}

// answer answers the last request.
func (p *posted) answer(status driver.Status) {
	last := len(p.then) - 1
	out := driver.Outcome{Status: status}
	if status == driver.Unknown {
		out.Err = driver.ErrUnavailable
	}
	p.then[last](Answer{Outcomes: slices.Repeat([]driver.Outcome{out}, len(p.changes[last]))})
}

// writer is a session in some phase.
type writer struct {
	ids   *record.WriterIDs
	phase protocol.SessionPhase
}

func (w *writer) ID() string                { return w.ids.Session }
func (w *writer) IDs() *record.WriterIDs    { return w.ids }
func (w *writer) Machine() protocol.Session { return protocol.Session{Phase: w.phase} }

// sentRequests is an outbox at a time that a test sets.
type sentRequests struct {
	*Outbox

	sent *posted
	by   *writer
	now  time.Duration
}

func newSender(t *testing.T) *sentRequests {
	t.Helper()
	p := testParams(t)
	s := &sentRequests{sent: &posted{}, by: &writer{ids: &record.WriterIDs{Session: "me"}, phase: protocol.Open}}
	s.Outbox = &Outbox{
		send: s.sent.send, cache: NewCache(p, testAt(0)), keys: newKeys(&Effects{}, p), session: s.by,
		moment: func() protocol.Moment { return testMoment(s.now) }, retry: p.Retry,
	}
	return s
}

// at lets time pass and sends what is due.
func (s *sentRequests) at(d time.Duration) {
	s.now = d
	s.flush(s.moment())
}

// Who watches events must look once they can be read: not before they are written, and also when others write nothing
// else.
func TestEventsAreCountedOnceTheyAreWritten(t *testing.T) {
	s := newSender(t)
	s.Note(record.Event{Type: record.EventMoved}, s.moment())
	s.at(2 * time.Second)
	if !slices.Equal(s.sent.ops, []string{"event"}) {
		t.Fatalf("sent %q, want the event alone", s.sent.ops)
	}
	s.at(4 * time.Second)
	if len(s.sent.ops) != 1 {
		t.Fatalf("sent %q before the event was answered", s.sent.ops)
	}
	s.sent.answer(driver.Unknown)
	for d := 4 * time.Second; d < 7*time.Second; d += 100 * time.Millisecond {
		s.at(d)
	}
	if !slices.Equal(s.sent.ops, []string{"event", "event"}) {
		t.Fatalf("sent %q, want the event again", s.sent.ops)
	}
	s.sent.answer(driver.Applied)
	s.at(9 * time.Second)
	s.at(11 * time.Second)
	if !slices.Equal(s.sent.ops, []string{"event", "event", "increment"}) {
		t.Fatalf("sent %q, want one increment after the event", s.sent.ops)
	}
	if c := s.sent.changes[2]; len(c) != 1 || c[0].Op != driver.Increment || c[0].Doc.ID != record.CounterEvents {
		t.Errorf("incremented %+v", c)
	}
}

// Events are for people: keys go first, and a session that is not open has other worries.
func TestEventsWaitForAnOpenSession(t *testing.T) {
	s := newSender(t)
	s.by.phase = protocol.Lost
	s.Note(record.Event{Type: record.EventMoved}, s.moment())
	s.at(2 * time.Second)
	if len(s.sent.ops) > 0 {
		t.Fatalf("sent %q for a session that is lost", s.sent.ops)
	}
	if rest := s.LastEvents(); len(rest) != 1 {
		t.Errorf("%d events are left at the end, want 1", len(rest))
	}
}

func TestIncrementsAreRepeatedUntilAnswered(t *testing.T) {
	s := newSender(t)
	s.increment([]string{"g"}, s.moment().Now)
	s.at(time.Second)
	s.sent.then[0](Answer{Outcomes: []driver.Outcome{{Err: driver.ErrUnavailable}, {Status: driver.Applied}}})
	s.at(2 * time.Second)
	if len(s.sent.changes) != 2 || len(s.sent.changes[1]) != 2 {
		t.Fatalf("sent %+v, want both counters twice", s.sent.changes)
	}
	for _, c := range s.sent.changes[1] {
		if c.Doc.ID != "g" && c.Doc.ID != counterMembers {
			t.Errorf("incremented %q", c.Doc.ID)
		}
	}
	s.sent.answer(driver.Applied)
	if left := s.LastIncrements(); len(left) > 0 {
		t.Errorf("%+v are left", left)
	}
}
