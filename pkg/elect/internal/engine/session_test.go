package engine

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/shardctl/shardctl/pkg/elect/protocol"
	"github.com/shardctl/shardctl/pkg/elect/record"
	"github.com/shardctl/shardctl/pkg/store"
)

// sessionWorld is one process's session, and the time.
type sessionWorld struct {
	*Session
	t   *testing.T
	p   protocol.Params
	now time.Duration
}

func newSessionWorld(t *testing.T) *sessionWorld {
	t.Helper()
	n, p := 0, testParams(t)
	return &sessionWorld{t: t, p: p, Session: NewSession(p, record.Member{Instance: "a"}, func() string {
		n++
		return fmt.Sprint("session-", n)
	})}
}

func (w *sessionWorld) moment() protocol.Moment { return testMoment(w.now) }

// after lets time pass, and returns what is to be done.
func (w *sessionWorld) after(d time.Duration) SessionReady {
	w.now += d
	w.Tick(w.moment())
	return w.Ready()
}

// written is the heartbeat that is to be written after d.
func (w *sessionWorld) written(d time.Duration) store.Change {
	w.t.Helper()
	r := w.after(d)
	if r.Write == nil {
		w.t.Fatalf("no write: %+v", r)
	}
	return r.Write.Change
}

// open opens the session.
func (w *sessionWorld) open() {
	w.t.Helper()
	r := w.after(0)
	if r.Write == nil || r.Write.Member == nil {
		w.t.Fatalf("no creation with a member: %+v", r)
	}
	w.Member.Answered(*r.Write.Member, store.Outcome{Status: store.Applied}, false, w.moment().Now)
	w.Answered(w.ID(), protocol.Applied, w.moment())
	if got := w.Ready(); got.Renewed == nil || !slices.Contains(got.Keys, protocol.KeyResume) {
		w.t.Fatalf("after the creation: %+v", got)
	}
}

func TestAnOpenedSessionIsAnnounced(t *testing.T) {
	w := newSessionWorld(t)
	if r := w.Ready(); r.Opening != "session-1" {
		t.Fatalf("opening %q", r.Opening)
	}
	if w.Announced() {
		t.Error("announced before its creation")
	}
	w.open()
	if !w.Announced() || !w.Valid(w.moment().Now) {
		t.Error("open, and not announced")
	}
}

func TestAnUnansweredCreationIsReadAndNotRepeated(t *testing.T) {
	w := newSessionWorld(t)
	w.written(0)
	w.Answered(w.ID(), protocol.Unknown, w.moment())
	r := w.Ready()
	for range 20 {
		if r.Write != nil {
			t.Fatal("the creation was sent again")
		}
		if r.Read {
			return
		}
		r = w.after(w.p.Retry)
	}
	t.Error("the document was not read")
}

func TestAnUnansweredHeartbeatIsRepeatedAsItWas(t *testing.T) {
	w := newSessionWorld(t)
	w.open()
	first := w.written(w.p.Heartbeat)
	w.Answered(w.ID(), protocol.Unknown, w.moment())
	again := w.written(w.p.Retry)
	if again.IfRev != first.IfRev || again.Doc.Rev != first.Doc.Rev || again.Doc.WriterID != first.Doc.WriterID {
		t.Errorf("first %+v, then %+v", first, again)
	}
	w.Answered(w.ID(), protocol.Applied, w.moment())
	w.Ready()
	if next := w.written(w.p.Heartbeat); next.IfRev != first.Doc.Rev || next.Doc.WriterID == first.Doc.WriterID {
		t.Errorf("after an answer: %+v", next)
	}
}

func TestASessionEndedByAnotherIsFollowedByANewOne(t *testing.T) {
	w := newSessionWorld(t)
	w.open()
	w.Drain(w.moment())
	w.written(w.p.Heartbeat)
	w.Answered(w.ID(), protocol.Refused, w.moment())
	if r := w.Ready(); !r.Read {
		t.Fatalf("refused, and not read: %+v", r)
	}
	ended := w.ID()
	w.Found(ended, &store.Doc{
		Kind: store.KindSession, ID: ended, Rev: 1_000_001, State: string(record.StateName(protocol.Dead)),
		WriterID: store.WriterID{Session: "b"},
	}, true, w.moment())
	r := w.Ready()
	if !r.Lost || w.Valid(w.moment().Now) {
		t.Fatalf("not lost: %+v", r)
	}
	w.Idle(0, 0, w.moment())
	if change := w.written(0); record.StateOf(change.Doc.State) != protocol.Dead {
		t.Fatalf("written once nothing runs: %+v", change.Doc)
	}
	w.Answered(ended, protocol.Applied, w.moment())
	if r := w.Ready(); r.Over == nil || r.Over.Session != ended || r.Opening == "" || r.Opening == ended {
		t.Fatalf("over %+v, opening %q", r.Over, r.Opening)
	}
	if !w.Leaving() {
		t.Error("the drain ended with the session it was asked in")
	}
}

func TestAMemberThatWasEditedIsWrittenAgain(t *testing.T) {
	w := newSessionWorld(t)
	w.open()
	rev := w.Member.Record().Rev
	w.Announce(w.moment()) // the store's clock at the opening
	if r := w.Ready(); r.Member != nil {
		w.Member.Answered(*r.Member, store.Outcome{Status: store.Applied}, false, w.moment().Now)
		rev = r.Member.Doc.Rev
	}
	edited := w.Member.Record().Doc(store.WriterID{Session: "hand"})
	edited.Rev, edited.Body = rev+1, []byte(`{"instance":"b"}`)
	if !w.Member.Found(w.ID(), rev, &edited) {
		t.Fatal("an edit was not seen")
	}
	w.now += w.p.Retry
	w.Announce(w.moment())
	r := w.Ready()
	if r.Member == nil || r.Member.IfRev != edited.Rev {
		t.Fatalf("written: %+v", r.Member)
	}
	if got, err := record.MemberFrom(r.Member.Doc); err != nil || got.Instance != "a" {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestAClosedSessionEndsOnceNothingRuns(t *testing.T) {
	w := newSessionWorld(t)
	w.open()
	if !w.Close(w.moment()) || w.Close(w.moment()) {
		t.Error("Close is to say whether it was the first")
	}
	w.Answered(w.ID(), protocol.Applied, w.moment()) // it says draining
	w.Idle(1, 1, w.moment())
	if w.Machine().Phase == protocol.Ended || w.Machine().Phase == protocol.Ending {
		t.Fatal("ended while a task runs")
	}
	w.Ready()
	w.Idle(0, 0, w.moment())
	change := w.written(0)
	if record.StateOf(change.Doc.State) != protocol.Dead {
		t.Fatalf("written: %+v", change.Doc)
	}
	w.Answered(w.ID(), protocol.Applied, w.moment())
	if w.Machine().Phase != protocol.Ended {
		t.Errorf("phase %v", w.Machine().Phase)
	}
}
