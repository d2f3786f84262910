package subscribetest

import (
	"strings"
	"testing"
)

// check is one property of every source.
type check struct {
	name string
	// skip says why the check is not for this topic; empty: it is.
	skip func(Topic) string
	run  func(*scene)
}

// checks are all, in the order in which they run.
func checks() []check {
	all := []check{
		{"Value", always, checkValue},
		{"Order", always, checkOrder},
		{"Beginning", fromBeginning, checkBeginning},
		{"BeginningIsLogged", positioned, func(s *scene) { checkBeginningLogged(s, s.open) }},
		{"Content", always, checkContent},
		{"Most", always, checkMost},
		{"WaitsAndReturnsWithContext", always, checkWaits},
		{"InterruptedReceiveLosesNothing", always, checkInterrupted},
		{"ClosesAtOnce", always, checkTurns},
		{"AckIsDurable", again, checkAckDurable},
		{"AckInPieces", again, checkPieces},
		{"AckInAnotherOrder", again, checkOtherOrder},
		{"AckWithEndedContext", again, checkAckEnded},
		{"AgainAfterClose", again, checkAgainAfterClose},
		{"AgainAfterCut", again, checkAgainAfterCut},
		{"AckAfterCut", again, checkAckAfterCut},
		{"AgainAfterCrash", again, checkAgainAfterCrash},
		{"AttemptsAreKept", again, func(s *scene) { checkAttempts(s, s.open()) }},
		{"StaleOwner", fenced, checkStaleOwner},
		{"DeadLetter", always, checkDeadLetter},
		{"DeadLetterAcknowledgesNothing", again, checkDeadLetterNoAck},
		{"Pause", always, checkPause},
		{"Lag", lagging, checkLag},
		{"OpenWhileBlocked", always, checkOpenBlocked},
		{"CallsWhileBlocked", always, checkCallsBlocked},
		{"CloseWhileBlocked", again, checkCloseBlocked},
		{"Soak", again, checkSoak},
	}
	return append(all, storeChecks()...)
}

// Run checks a source. topic makes a fresh topic for each check, and ends it with the check.
func Run(t *testing.T, topic func(t *testing.T) Topic) {
	t.Helper()
	for _, c := range checks() {
		t.Run(c.name, func(t *testing.T) { c.on(t, t, topic(t)) })
	}
}

// on runs the check, and reports to r.
func (c check) on(t *testing.T, r reporter, topic Topic) {
	t.Helper()
	r.Helper()
	if missing := topic.missing(); len(missing) > 0 {
		r.Fatalf("the topic has no %s: these are required", strings.Join(missing, ", "))
	}
	if why := c.skip(topic); why != "" {
		r.Skipf("skipped: %s", why)
	}
	c.run(newScene(t, r, topic))
}

func always(Topic) string { return "" }

// again is for checks in which messages come again.
func again(t Topic) string {
	if t.Forgets {
		return "the broker forgets what nobody is subscribed for"
	}
	return ""
}

func fromBeginning(t Topic) string {
	if t.FromNow {
		return "a subscription begins when it is first opened"
	}
	return again(t)
}

func positioned(t Topic) string {
	if t.IsQueue {
		return "the broker removes what is acknowledged: there is no position"
	}
	return again(t)
}

func fenced(t Topic) string {
	if !t.Fenced {
		return "the broker does not compare tokens"
	}
	return ""
}

func lagging(t Topic) string {
	if t.NoLag {
		return "the broker does not tell how far a subscription is behind"
	}
	return ""
}

func stored(t Topic) string {
	if t.InStore == nil {
		return "the source cannot keep its position in the checkpoint"
	}
	return ""
}
