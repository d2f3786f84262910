package flow_test

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/shardctl/shardctl/internal/subscribe/internal/flow"
	_ "github.com/shardctl/shardctl/test/seeds" // the same cases for everybody
	"github.com/shardctl/shardctl/test/suites"
)

// draws chooses a number from 0 to n-1.
type draws func(what string, n int) int

// yes is true once in n times.
func (d draws) yes(what string, n int) bool { return d(what, n) == 0 }

// sim plays with a flow, and has the model judge it.
type sim struct {
	model
	flow  machine
	draw  draws
	now   time.Time
	wake  time.Time
	given []*item // to be acknowledged, and not yet
}

var (
	errFailed   = errors.New("failed")
	errTogether = errors.New("the receiver failed")
	errRejected = errors.New("rejected")
	errLater    = errors.New("not before an hour")
)

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func newModel(rules flow.Rules) model { return model{rules: rules, due: map[string]time.Time{}} }

func drawRules(draw draws) flow.Rules {
	inFlight := 1 + draw("inFlight", 12)
	if draw.yes("many", 400) {
		inFlight *= 40 // so that queues grow long
	}
	return flow.Rules{
		InFlight: inFlight, PerPartition: draw.yes("per partition", 2),
		Order: []flow.Order{"", flow.OrderNone, flow.OrderKey, flow.OrderPartition}[draw("order", 4)],
		Batch: 1 + draw("batch", 4), Attempts: draw("attempts", 4),
		DeadLetters: draw.yes("letters", 2), Cumulative: draw.yes("cumulative", 2),
		Delay:    func(failures int) time.Duration { return time.Duration(failures) * 100 * time.Millisecond },
		MaxDelay: 250 * time.Millisecond,
	}
}

// play plays, and says what the flow did wrong.
func play(draw draws, making func(rules flow.Rules) machine) error {
	rules := drawRules(draw)
	s := &sim{
		model: newModel(rules), flow: making(rules), draw: draw, now: epoch,
	}
	for range 80 {
		if err := s.step(); err != nil {
			return err
		}
	}
	return s.end()
}

func (s *sim) step() error {
	var err error
	switch s.draw("step", 12) {
	case 0, 1, 2:
		s.receive()
	case 3, 4:
		err = s.next()
	case 5, 6, 7:
		if len(s.under) == 0 {
			break
		}
		if s.draw.yes("receiver fails", 8) {
			s.collapse()
			break
		}
		s.finish(s.draw("work", len(s.under)), 3)
	case 8:
		err = s.take()
	case 9:
		s.confirm(s.draw("confirmed", len(s.given)+1))
	case 10:
		s.now = s.now.Add(time.Duration(s.draw("passes", 300)) * time.Millisecond)
	case 11:
		switch s.draw("stop", 20) {
		case 0:
			s.stopped, s.drains = true, false
			s.flow.Stop()
		case 1, 2:
			s.drain()
			s.flow.Drain()
		}
	}
	if err != nil {
		return err
	}
	return s.agrees(s.flow)
}

// receive receives some of what it may.
func (s *sim) receive() {
	for range s.draw("messages", s.flow.Free()+1) {
		m := &message{n: len(s.all), partition: fmt.Sprintf("p%d", s.draw("partition", 3))}
		if slices.Contains(s.flow.Full(), m.partition) {
			continue
		}
		key := s.key()
		m.lane = laneOf(s.rules.Order, m, key)
		var past flow.Past
		if s.draw.yes("failed before", 5) && (s.rules.Attempts == 0 || s.rules.DeadLetters) {
			m.failures = 1 + s.draw("failures", max(1, s.rules.Attempts))
			m.deadLetter, m.refused, m.alone = m.failures == s.rules.Attempts, true, true
			past = flow.Past{Failures: m.failures, Err: errFailed}
			if s.draw.yes("rejected before", 4) {
				past.Err, m.deadLetter = flow.Rejected(errRejected), s.rules.DeadLetters
			}
		} else if s.draw.yes("tried before", 5) {
			past.Before = s.draw("attempts", 6)
			m.before = past.Before
			if s.rules.Attempts > 0 {
				m.before = min(m.before, s.rules.Attempts-1)
			}
		}
		s.all = append(s.all, m)
		s.flow.Received(m, m.partition, key, past)
	}
}

// key is nil, or one of three.
func (s *sim) key() []byte {
	if k := s.draw("key", 4); k > 0 {
		return []byte{byte('a' + k)}
	}
	return nil
}

// laneOf is what order is kept within.
func laneOf(order flow.Order, m *message, key []byte) string {
	switch {
	case order == flow.OrderPartition:
		return m.partition
	case order == flow.OrderNone, key == nil:
		return fmt.Sprintf("%s, message %d", m.partition, m.n)
	}
	return fmt.Sprintf("%s, key %s", m.partition, key)
}

// next begins what the flow wants to begin.
func (s *sim) next() error {
	works, wake := s.flow.Next(s.now)
	for _, w := range works {
		if err := s.begin(w, s.now); err != nil {
			return err
		}
	}
	s.wake = wake
	return s.rest(s.now, wake)
}

// finish ends work that is under way. One in so many messages fails; 0: none.
func (s *sim) finish(n, failing int) {
	w := s.under[n]
	errs := make([]error, len(w.Items))
	for i := range errs {
		if failing > 0 && s.draw.yes("fails", failing) {
			errs[i] = []error{
				errFailed, errFailed, flow.Rejected(errRejected), flow.RetryAfter(errLater, time.Hour),
			}[s.draw("how", 4)]
		}
	}
	s.model.finish(w, errs, s.now)
	s.flow.Finished(w, errs, s.now)
}

// collapse fails all deliveries that are under way.
func (s *sim) collapse() {
	for _, w := range slices.Backward(slices.Clone(s.under)) {
		if w.DeadLetter {
			continue
		}
		errs := slices.Repeat([]error{flow.Together(errTogether)}, len(w.Items))
		s.model.finish(w, errs, s.now)
		s.flow.Finished(w, errs, s.now)
	}
}

// take takes what is to be acknowledged, as a runner does once its last acknowledgement has been confirmed.
func (s *sim) take() error {
	items := s.flow.Acks()
	s.given = append(s.given, items...)
	return s.acks(items)
}

// confirm says that acknowledgements were confirmed.
func (s *sim) confirm(n int) {
	for _, i := range s.given[:n] {
		i.Message.acked = true
	}
	s.flow.Acked(s.given[:n])
	s.given = s.given[n:]
}

// acked counts the messages that were acknowledged.
func (s *sim) acked() (n int) {
	for _, x := range s.all {
		if x.acked {
			n++
		}
	}
	return n
}

// end has everything succeed from now on. Then each message must be acknowledged, unless the flow was stopped.
func (s *sim) end() error {
	for range 1000 {
		if err := s.next(); err != nil {
			return err
		}
		for len(s.under) > 0 {
			s.finish(0, 0)
			if err := s.next(); err != nil {
				return err
			}
		}
		if err := s.take(); err != nil {
			return err
		}
		s.confirm(len(s.given))
		if err := s.agrees(s.flow); err != nil {
			return err
		}
		switch x := s.stuck(); {
		case s.acked() == len(s.all), s.stopped && !s.drains:
			return nil
		case s.drains && x != nil:
			return fmt.Errorf("drained, and %v waits for its acknowledgement", x)
		case s.drains:
			return nil
		}
		if s.wake.After(s.now) {
			s.now = s.wake
		}
	}
	return fmt.Errorf("lost: %d of %d messages were acknowledged, and nothing is to be done", s.acked(), len(s.all))
}

// TestFlowKeepsItsRules plays with the flow at random.
func TestFlowKeepsItsRules(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		draw := func(what string, n int) int { return rapid.IntRange(0, n-1).Draw(t, what) }
		if err := play(draw, right); err != nil {
			t.Fatal(err)
		}
	})
}

// TestPoisonDelaysNothingElse plays with a message that fails for ever.
func TestPoisonDelaysNothingElse(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		draw := func(what string, n int) int { return rapid.IntRange(0, n-1).Draw(t, what) }
		if err := playPoison(draw, right); err != nil {
			t.Fatal(err)
		}
	})
}

// TestAttemptsOfAllOwnersCount plays with owners that come and go.
func TestAttemptsOfAllOwnersCount(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		draw := func(what string, n int) int { return rapid.IntRange(0, n-1).Draw(t, what) }
		if err := playOwners(draw, right); err != nil {
			t.Fatal(err)
		}
	})
}

// TestSeededPlays is the same for many more plays, which are quicker without rapid.
func TestSeededPlays(t *testing.T) {
	seeds := uint64(500)
	if suites.Chosen(t, suites.Models) {
		seeds = 3000
	}
	for seed := range seeds {
		if err := allPlays(seed, right); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
	}
}

func allPlays(seed uint64, making func(rules flow.Rules) machine) error {
	return cmp.Or(play(seeded(seed), making), playPoison(seeded(seed), making), playOwners(seeded(seed), making))
}

func right(rules flow.Rules) machine { return flow.New[*message](rules) }

// seeded draws without rapid, for what is to fail.
func seeded(seed uint64) draws {
	random := rand.New(rand.NewPCG(seed, 1))
	return func(_ string, n int) int { return random.IntN(n) }
}

// TestWeakenedFlowsAreSeen shows that the test above sees each rule being broken.
func TestWeakenedFlowsAreSeen(t *testing.T) {
	for _, weak := range weakened() {
		t.Run(weak.name, func(t *testing.T) {
			var other error
			for seed := range uint64(3000) {
				err := allPlays(seed, weak.make)
				switch {
				case err == nil:
				case strings.Contains(err.Error(), weak.seen):
					t.Logf("seen at seed %d: %v", seed, err)
					return
				default:
					other = err
				}
			}
			t.Errorf("no play said %q; one said: %v", weak.seen, other)
		})
	}
}
