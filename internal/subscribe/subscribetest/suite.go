// Package subscribetest is what every source of messages must do, as tests of real brokers.
//
// [Run] runs the suite. A source's package calls it with a function that makes a fresh [Topic]. [Store] and
// [NewSession] are the other half of an Open. For tests that are the source's own, a [Task] opens it, and a [Client]
// checks what the subscription does.
package subscribetest

import (
	"cmp"
	"strings"
	"testing"

	"github.com/shardctl/shardctl/internal/subscribe"
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
		{"MadeAgain", remade, func(s *scene) { checkMadeAgain(s, false) }},
		{"PositionGone", droppable, checkPositionGone},
		{"DeadLetter", always, checkDeadLetter},
		{"DeadLetterAcknowledgesNothing", again, checkDeadLetterNoAck},
		{"Pause", always, checkPause},
		{"Flood", always, checkFlood},
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

// when is why a check is not for a topic, if that is so.
func when(so bool, why string) string {
	if so {
		return why
	}
	return ""
}

func always(Topic) string { return "" }

// again is for checks in which messages come again.
func again(t Topic) string { return when(t.Forgets, "the broker forgets what has no subscriber") }

func fromBeginning(t Topic) string {
	return cmp.Or(when(t.FromNow, "a subscription begins when it is first opened"), again(t))
}

func positioned(t Topic) string {
	return cmp.Or(when(t.IsQueue, "the broker removes what is acknowledged: there is no position"), again(t))
}

func remade(t Topic) string {
	no := t.MakeAgain == nil || t.WhenMissing == nil
	return cmp.Or(when(no, "the topic is not made again, or nothing says what to do then"), positioned(t))
}

func droppable(t Topic) string {
	no := t.DropPosition == nil || t.WhenMissing == nil
	return cmp.Or(when(no, "the broker keeps no position"), positioned(t))
}

func fenced(t Topic) string { return when(!t.Fenced, "the broker does not compare tokens") }

func lagging(t Topic) string {
	return when(t.NoLag, "the broker does not report how far a subscription is behind")
}

func stored(t Topic) string {
	return when(t.InStore == nil, "the source cannot keep its position in the checkpoint")
}

// Topic is a fresh, empty topic (queue, stream, subject) of a broker, and what tests do to it. Every function fails the
// test on an error. InStore, Flood, those for a position that is gone, and what the traits rule out are not required.
type Topic struct {
	// Source subscribes to it from its beginning, under one consumer name: each Source takes up where the last was
	// left. Its values are equal.
	Source func(t *testing.T) subscribe.Source
	// InStore is Source with the position kept in the checkpoint; nil where the source has no such thing.
	InStore func(t *testing.T) subscribe.Source
	// Publish publishes messages by their Key, Body, Type and Headers, in their order, and returns once the broker has
	// them. Messages of one key come to one partition. It may be called by another goroutine while the test goes on.
	Publish func(t *testing.T, messages ...subscribe.Message)
	// Flood is Publish in the way in which the broker is bound the least in how much it sends to a subscription; nil:
	// Publish.
	Flood func(t *testing.T, messages ...subscribe.Message)
	// WhenMissing is Source, or InStore, that does so where its position is gone: stop or earliest; nil: it has no
	// choice. MakeAgain deletes the topic, and makes an empty one of its name. DropPosition deletes what the broker
	// keeps of Source's position; nil: that is nothing.
	WhenMissing             func(t *testing.T, missing string, inStore bool) subscribe.Source
	MakeAgain, DropPosition func(t *testing.T)
	// Letters is another topic, for dead letters, and ReadLetters waits for so many of its messages.
	Letters     string
	ReadLetters func(t *testing.T, n int) []subscribe.Message
	// Cut breaks every connection that subscriptions have to the broker. What connects later works. Use a link, such as
	// a TCP proxy, between them. Publish and ReadLetters do not use the link.
	Cut func(t *testing.T)
	// Block makes the link carry nothing, on old and new connections, as a network does that drops packets. Unblock
	// ends that. When the test ends while it is blocked, the topic's clean-up unblocks it.
	Block, Unblock func(t *testing.T)
	Traits
}

// Traits are how sources differ. Each rules out checks, which the suite then reports as skipped.
type Traits struct {
	Forgets   bool // a message that no one is subscribed for is gone: plain subjects of NATS
	FromNow   bool // what was published before the first Open does not come: a session of MQTT begins with it
	IsQueue   bool // the broker removes what is acknowledged, and no position is kept
	NoKeys    bool // the broker's messages have no key
	NoHeaders bool // neither headers nor a media type
	NoLag     bool
	// AcksInStore: Source itself keeps its position in the checkpoint, so that Ack needs no broker. InStore is Source
	// then.
	AcksInStore bool
	// Fenced adds a check: once a newer token has opened the subscription, Ack of an older one fails.
	Fenced bool
}

// missing are the required functions that are nil.
func (t Topic) missing() []string {
	var names []string
	for _, f := range []struct {
		name string
		nil  bool
	}{
		{"Source", t.Source == nil},
		{"Publish", t.Publish == nil},
		{"Letters", t.Letters == ""},
		{"ReadLetters", t.ReadLetters == nil},
		{"Cut", t.Cut == nil},
		{"Block", t.Block == nil},
		{"Unblock", t.Unblock == nil},
	} {
		if f.nil {
			names = append(names, f.name)
		}
	}
	return names
}

// scene is one check on one topic.
type scene struct {
	calls
	*traffic
	*owners
}

func newScene(t *testing.T, r reporter, topic Topic) *scene {
	t.Helper()
	on := &traffic{t: t, topic: topic, book: newLedger()}
	return &scene{calls{r}, on, &owners{calls: calls{r}, traffic: on, id: NewIdentity(), store: NewStore(nil)}}
}
