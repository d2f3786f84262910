package engine

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/shardctl/shardctl/internal/protocol"
	"github.com/shardctl/shardctl/internal/record"
	"github.com/shardctl/shardctl/pkg/store/driver"
)

// sessionWorld is one process's session, and the time.
type sessionWorld struct {
	*Self
	t   *testing.T
	p   protocol.Params
	now time.Duration
}

func newSessionWorld(t *testing.T) *sessionWorld {
	t.Helper()
	n, p := 0, testParams(t)
	return &sessionWorld{t: t, p: p, Self: newSelf(&Effects{}, p, record.Member{Instance: "a"}, func() string {
		n++
		return fmt.Sprint("session-", n)
	})}
}

func (w *sessionWorld) moment() protocol.Moment { return testMoment(w.now) }

// after lets time pass, and returns what is to be done.
func (w *sessionWorld) after(d time.Duration) taken {
	w.now += d
	w.Tick(w.moment())
	return takeFrom(w.out)
}

// written is the heartbeat that is to be written after d.
func (w *sessionWorld) written(d time.Duration) driver.Change {
	w.t.Helper()
	r := w.after(d)
	writes := of[sessionWrite](r)
	if len(writes) == 0 {
		w.t.Fatalf("no write: %+v", r)
	}
	return writes[0].Change
}

// open opens the session.
func (w *sessionWorld) open() {
	w.t.Helper()
	r := w.after(0)
	writes := of[sessionWrite](r)
	if len(writes) == 0 || writes[0].Member == nil {
		w.t.Fatalf("no creation with a member: %+v", r)
	}
	w.Member.answered(*writes[0].Member, driver.Outcome{Status: driver.Applied}, w.moment().Now)
	w.answered(w.ID(), protocol.Applied, w.moment())
	got := takeFrom(w.out)
	if len(of[LeaseRenewed](got)) == 0 || !slices.Contains(of[forAllKeys](got), forAllKeys{protocol.KeyResume}) {
		w.t.Fatalf("after the creation: %+v", got)
	}
}

func TestAnOpenedSessionIsAnnounced(t *testing.T) {
	w := newSessionWorld(t)
	if r := takeFrom(w.out); !slices.Equal(of[sessionBegun](r), []sessionBegun{{"session-1"}}) {
		t.Fatalf("opening %q", of[sessionBegun](r))
	}
	if w.announced() {
		t.Error("announced before its creation")
	}
	w.open()
	if !w.announced() || !w.Valid(w.moment().Now) {
		t.Error("open, and not announced")
	}
}

func TestAnUnansweredCreationIsReadAndNotRepeated(t *testing.T) {
	w := newSessionWorld(t)
	w.written(0)
	w.answered(w.ID(), protocol.Unknown, w.moment())
	r := takeFrom(w.out)
	for range 20 {
		if len(of[sessionWrite](r)) > 0 {
			t.Fatal("the creation was sent again")
		}
		if len(of[readOwnSession](r)) > 0 {
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
	w.answered(w.ID(), protocol.Unknown, w.moment())
	again := w.written(w.p.Retry)
	if again.IfRev != first.IfRev || again.Doc.Rev != first.Doc.Rev || again.Doc.WriterID != first.Doc.WriterID {
		t.Errorf("first %+v, then %+v", first, again)
	}
	w.answered(w.ID(), protocol.Applied, w.moment())
	takeFrom(w.out)
	if next := w.written(w.p.Heartbeat); next.IfRev != first.Doc.Rev || next.Doc.WriterID == first.Doc.WriterID {
		t.Errorf("after an answer: %+v", next)
	}
}

func TestASessionEndedByAnotherIsFollowedByANewOne(t *testing.T) {
	w := newSessionWorld(t)
	w.open()
	w.Drain(w.moment())
	w.written(w.p.Heartbeat)
	w.answered(w.ID(), protocol.Refused, w.moment())
	if r := takeFrom(w.out); len(of[readOwnSession](r)) == 0 {
		t.Fatalf("refused, and not read: %+v", r)
	}
	ended := w.ID()
	w.found(ended, &record.Session{
		ID: ended, Rev: 1_000_001, State: record.Dead, WriterID: driver.WriterID{Session: "b"},
	}, true, w.moment())
	r := takeFrom(w.out)
	if len(of[sessionLost](r)) == 0 || w.Valid(w.moment().Now) {
		t.Fatalf("not lost: %+v", r)
	}
	w.Idle(0, 0, w.moment())
	if change := w.written(0); record.StateOf(change.Doc.State) != protocol.Dead {
		t.Fatalf("written once nothing runs: %+v", change.Doc)
	}
	w.answered(ended, protocol.Applied, w.moment())
	r = takeFrom(w.out)
	over, begun := of[sessionEnded](r), of[sessionBegun](r)
	if len(over) != 1 || over[0].session != ended || len(begun) != 1 || begun[0].session == ended {
		t.Fatalf("over %+v, opening %q", over, begun)
	}
	if !w.Leaving() {
		t.Error("the drain ended with the session it was asked in")
	}
}

func TestAMemberThatWasEditedIsWrittenAgain(t *testing.T) {
	w := newSessionWorld(t)
	w.open()
	rev := w.Member.Record().Rev
	w.announce(w.moment()) // the store's clock at the opening
	if r := of[writeMember](takeFrom(w.out)); len(r) > 0 {
		w.Member.answered(*r[0].change, driver.Outcome{Status: driver.Applied}, w.moment().Now)
		rev = r[0].change.Doc.Rev
	}
	edited := w.Member.Record().Doc(driver.WriterID{Session: "hand"})
	edited.Rev, edited.Body = rev+1, []byte(`{"instance":"b"}`)
	if !w.Member.found(w.ID(), rev, &edited) {
		t.Fatal("an edit was not seen")
	}
	w.now += w.p.Retry
	w.announce(w.moment())
	r := of[writeMember](takeFrom(w.out))
	if len(r) == 0 || r[0].change.IfRev != edited.Rev {
		t.Fatalf("written: %+v", r)
	}
	if got, err := record.MemberFrom(r[0].change.Doc); err != nil || got.Instance != "a" {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestAClosedSessionEndsOnceNothingRuns(t *testing.T) {
	w := newSessionWorld(t)
	w.open()
	if !w.Close(w.moment()) || w.Close(w.moment()) {
		t.Error("Close is to say whether it was the first")
	}
	w.answered(w.ID(), protocol.Applied, w.moment()) // it says draining
	w.Idle(1, 1, w.moment())
	if w.Machine().Phase == protocol.Ended || w.Machine().Phase == protocol.Ending {
		t.Fatal("ended while a task runs")
	}
	takeFrom(w.out)
	w.Idle(0, 0, w.moment())
	change := w.written(0)
	if record.StateOf(change.Doc.State) != protocol.Dead {
		t.Fatalf("written: %+v", change.Doc)
	}
	w.answered(w.ID(), protocol.Applied, w.moment())
	if w.Machine().Phase != protocol.Ended {
		t.Errorf("phase %v", w.Machine().Phase)
	}
}
