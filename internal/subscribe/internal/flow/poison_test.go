package flow_test

import (
	"fmt"
	"slices"

	"github.com/shardctl/shardctl/internal/subscribe/internal/flow"
)

const (
	poisonPartitions = 3
	poisonMessages   = 12 // of each
)

// poisoned is a topic in which all messages are worked on but one.
type poisoned struct {
	sim
	waiting [poisonPartitions][]*message // not received yet
	keys    map[*message][]byte
	poison  *message
	whole   bool // a batch with it fails as a whole
}

// playPoison has everything succeed but one message, and says what that delays beyond its order.
func playPoison(draw draws, making func(rules flow.Rules) machine) error {
	rules := drawRules(draw)
	rules.DeadLetters = rules.Attempts > 0
	p := &poisoned{
		sim:   sim{model: newModel(rules), flow: making(rules), draw: draw, now: epoch},
		keys:  map[*message][]byte{},
		whole: draw.yes("whole", 2),
	}
	p.fill()
	for range 60 {
		if err := p.turn(p.drawn()); err != nil {
			return err
		}
	}
	// The judge takes what was not received for what the flow refused, so each partition is asked until it is empty:
	// draws need not be fair, and those of rapid are not.
	for n := range poisonMessages * poisonPartitions {
		if err := p.turn(p.everyone(n)); err != nil {
			return err
		}
	}
	return p.judge()
}

func (p *poisoned) fill() {
	var all []*message
	for i := range poisonMessages * poisonPartitions {
		m := &message{n: i, partition: fmt.Sprintf("p%d", i%poisonPartitions)}
		p.keys[m] = p.key()
		m.lane = laneOf(p.rules.Order, m, p.keys[m])
		p.waiting[i%poisonPartitions] = append(p.waiting[i%poisonPartitions], m)
		all = append(all, m)
	}
	p.poison = all[p.draw("poison", len(all))]
}

// drawn returns the partitions to receive from in a turn, drawn at random.
func (p *poisoned) drawn() []int {
	partitions := make([]int, 2*p.flow.Free())
	for i := range partitions {
		partitions[i] = p.draw("partition", poisonPartitions)
	}
	return partitions
}

// everyone returns the partition of each message that was not received yet, beginning with another one each turn.
func (p *poisoned) everyone(turn int) (partitions []int) {
	for i := range poisonPartitions {
		n := (turn + i) % poisonPartitions
		partitions = append(partitions, slices.Repeat([]int{n}, len(p.waiting[n]))...)
	}
	return partitions
}

// turn receives what it may from partitions in their order, has all of it worked on, and acknowledges.
func (p *poisoned) turn(partitions []int) error {
	for _, n := range partitions {
		if len(p.waiting[n]) == 0 || p.flow.Free() == 0 || slices.Contains(p.flow.Full(), fmt.Sprintf("p%d", n)) {
			continue
		}
		m := p.waiting[n][0]
		p.waiting[n] = p.waiting[n][1:]
		p.all = append(p.all, m)
		p.flow.Received(m, m.partition, p.keys[m], flow.Past{})
	}
	if err := p.next(); err != nil {
		return err
	}
	for _, w := range slices.Clone(p.under) {
		errs := p.outcome(w)
		p.model.finish(w, errs, p.now)
		p.flow.Finished(w, errs, p.now)
	}
	if err := p.take(); err != nil {
		return err
	}
	p.confirm(len(p.given))
	if p.wake.After(p.now) {
		p.now = p.wake
	}
	return nil
}

func (p *poisoned) outcome(w work) []error {
	errs := make([]error, len(w.Items))
	at := slices.IndexFunc(w.Items, func(i *item) bool { return i.Message == p.poison })
	switch {
	case at < 0 || w.DeadLetter:
	case p.whole:
		for i := range errs {
			errs[i] = errFailed
		}
	default:
		errs[at] = errFailed
	}
	return errs
}

// judge says what waits, and should not.
func (p *poisoned) judge() error {
	for _, m := range p.all {
		switch behind := m.lane == p.poison.lane && m.n > p.poison.n; {
		case m == p.poison:
			if p.rules.DeadLetters && !m.acked {
				return fmt.Errorf("%v is no dead letter", m)
			}
		case m.deadLetter:
			return fmt.Errorf("%v is good, and became a dead letter", m)
		case !p.rules.DeadLetters && behind && m.done:
			return fmt.Errorf("%v was worked on before %v", m, p.poison)
		case !m.done && (p.rules.DeadLetters || !behind):
			return fmt.Errorf("%v waits for %v", m, p.poison)
		}
	}
	for n, waiting := range p.waiting {
		name := fmt.Sprintf("p%d", n)
		held := 0
		for _, m := range p.all {
			if !m.acked && (m.partition == name || !p.rules.PerPartition) {
				held++
			}
		}
		if len(waiting) > 0 && held < p.rules.InFlight {
			return fmt.Errorf("%s is not received from, and has %d in flight: %v", name, held, p.poison)
		}
	}
	return nil
}
