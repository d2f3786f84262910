package subscribetest

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardctl/shardctl/internal/subscribe"
)

// fault is a way to be wrong, and the checks that see it.
type fault struct {
	name   string
	checks string // names, in one text
	single bool   // of a source that acknowledges each message by itself
	with   func(topic Topic) Topic
}

func allFaults() []fault {
	return slices.Concat(faultsOfMessages(), faultsOfReceive(), faultsOfAck(), faultsOfOrder(), faultsOfLetters(),
		faultsOfCalls(), faultsOfStore())
}

// TestFaults shows that the suite sees what is wrong with a source.
func TestFaults(t *testing.T) {
	for _, f := range allFaults() {
		t.Run(f.name, func(t *testing.T) {
			for name := range strings.FieldsSeq(f.checks) {
				t.Run(name, func(t *testing.T) { f.expectRed(t, name) })
			}
		})
	}
}

// tries are how often a fault may stay unseen: with some, what comes first of two goroutines decides.
const tries = 20

func (f fault) expectRed(t *testing.T, name string) {
	t.Helper()
	for range tries {
		red := false
		synctest.Test(t, func(t *testing.T) {
			r := record(t, find(t, name), f.with(memTopic(f.single)(t)))
			if r.skipped != "" {
				t.Fatal("skipped:", r.skipped)
			}
			if red = len(r.failed) > 0; red {
				t.Log("the check says:", r.failed[0])
			}
			time.Sleep(2 * time.Hour) // of the bubble's clock: calls that hang end
		})
		if red {
			return
		}
	}
	t.Fatalf("the check passes %d times", tries)
}

func find(t *testing.T, name string) check {
	t.Helper()
	for _, c := range checks() {
		if c.name == name {
			return c
		}
	}
	t.Fatalf("there is no check %s", name)
	return check{}
}

// TestEachCheckCanFail shows that no check passes whatever the source does.
func TestEachCheckCanFail(t *testing.T) {
	var seen []string
	for _, f := range allFaults() {
		seen = append(seen, strings.Fields(f.checks)...)
	}
	for _, c := range checks() {
		if !slices.Contains(seen, c.name) {
			t.Errorf("no fault turns the check %s red", c.name)
		}
	}
}

type (
	openFunc    func(ctx context.Context, s subscribe.Session) (subscribe.Subscription, error)
	receiveFunc func(ctx context.Context, most int) ([]subscribe.Message, error)
	ackFunc     func(ctx context.Context, messages []subscribe.Message) error
	letterFunc  func(ctx context.Context, to string, m subscribe.Message, why subscribe.Why) error
	lagFunc     func(ctx context.Context) (subscribe.Lag, error)
	closeFunc   func(ctx context.Context) error
)

// faults are what a source does instead of what it should. Each has the right way at hand; nil: that is used.
type faults struct {
	open       func(right openFunc) openFunc
	receive    func(right receiveFunc) receiveFunc
	ack        func(right ackFunc) ackFunc
	letter     func(right letterFunc) letterFunc
	lag        func(right lagFunc) lagFunc
	close      func(right closeFunc, sub subscribe.Subscription) closeFunc
	keep       func(right ackFunc) ackFunc
	cumulative bool // says that it is not
	unpaused   bool // leaves no partitions out
}

// faultySource is a source with faults.
type faultySource struct {
	subscribe.Source
	*faults
}

func (s faultySource) Open(ctx context.Context, session subscribe.Session) (subscribe.Subscription, error) {
	open := openFunc(s.Source.Open)
	if s.open != nil {
		open = s.open(open)
	}
	right, err := open(ctx, session)
	if err != nil {
		return nil, err
	}
	sub := &faultySub{
		Subscription: right, faults: s.faults, onReceive: right.Receive, onAck: right.Ack, onLetter: right.DeadLetter,
		onClose: right.Close,
	}
	if l, ok := right.(subscribe.Lagging); ok {
		sub.onLag = l.Lag
	}
	if k, ok := right.(subscribe.Keeping); ok {
		sub.onKeep = k.KeepDelivered
	}
	sub.spoil()
	return sub, nil
}

// faultySub is a subscription with faults.
type faultySub struct {
	subscribe.Subscription
	*faults
	onReceive receiveFunc
	onAck     ackFunc
	onLetter  letterFunc
	onLag     lagFunc
	onClose   closeFunc
	onKeep    ackFunc
}

func (s *faultySub) spoil() {
	if s.receive != nil {
		s.onReceive = s.receive(s.onReceive)
	}
	if s.ack != nil {
		s.onAck = s.ack(s.onAck)
	}
	if s.letter != nil {
		s.onLetter = s.letter(s.onLetter)
	}
	if s.lag != nil {
		s.onLag = s.lag(s.onLag)
	}
	if s.keep != nil {
		s.onKeep = s.keep(s.onKeep)
	}
	if s.close != nil {
		s.onClose = s.close(s.onClose, s.Subscription)
	}
}

func (s *faultySub) Receive(ctx context.Context, most int) ([]subscribe.Message, error) {
	return s.onReceive(ctx, most)
}

func (s *faultySub) Ack(ctx context.Context, messages []subscribe.Message) error {
	return s.onAck(ctx, messages)
}

func (s *faultySub) DeadLetter(ctx context.Context, to string, m subscribe.Message, why subscribe.Why) error {
	return s.onLetter(ctx, to, m, why)
}

func (s *faultySub) Pause(partitions []string) {
	if sub, ok := s.Subscription.(subscribe.Pausing); ok && !s.unpaused {
		sub.Pause(partitions)
	}
}

func (s *faultySub) Lag(ctx context.Context) (subscribe.Lag, error) { return s.onLag(ctx) }

func (s *faultySub) KeepDelivered(ctx context.Context, messages []subscribe.Message) error {
	return s.onKeep(ctx, messages)
}

func (s *faultySub) Close(ctx context.Context) error { return s.onClose(ctx) }

func (s *faultySub) Cumulative() bool { return s.Subscription.Cumulative() && !s.cumulative }

// spoiled is the topic with the faults in its sources.
func spoiled(topic Topic, f *faults) Topic {
	right := topic.Source
	topic.Source = func(t *testing.T) subscribe.Source {
		t.Helper()
		return faultySource{right(t), f}
	}
	if choose := topic.WhenMissing; choose != nil {
		topic.WhenMissing = func(t *testing.T, missing string, inStore bool) subscribe.Source {
			t.Helper()
			return faultySource{choose(t, missing, inStore), f}
		}
	}
	if stored := topic.InStore; stored != nil {
		topic.InStore = func(t *testing.T) subscribe.Source {
			t.Helper()
			return faultySource{stored(t), f}
		}
	}
	return topic
}
