package flow_test

import (
	"fmt"
	"slices"
	"time"

	"github.com/shardctl/shardctl/internal/subscribe/internal/flow"
)

// owners is a topic with one message that always fails. Owners hand it over, or crash, and attempts are kept.
type owners struct {
	rules   flow.Rules
	draw    draws
	flow    machine
	now     time.Time
	open    []*message // not acknowledged
	keys    map[*message][]byte
	poison  *message
	under   []work
	counts  bool             // the broker counts, also what is only sent ahead
	given   map[*message]int // how often, as it counts
	kept    map[*message]int
	tries   int // of the poison, in all
	here    int // of them, those of this owner
	unkept  int // of them, those that counted since attempts were kept
	unknown int // of them, those that no later owner knows of
}

// playOwners plays with the topic, and says where a message is tried too often or too seldom.
func playOwners(draw draws, making func(rules flow.Rules) machine) error {
	rules := drawRules(draw)
	rules.DeadLetters, rules.Attempts, rules.PerPartition = true, 1+draw("most attempts", 5), false
	o := &owners{
		rules: rules, draw: draw, now: epoch, counts: draw.yes("counts", 2),
		keys: map[*message][]byte{}, given: map[*message]int{}, kept: map[*message]int{},
	}
	for n := range 8 {
		m := &message{n: n, partition: fmt.Sprintf("p%d", n%2)}
		o.keys[m] = (&sim{draw: draw}).key()
		m.lane = laneOf(rules.Order, m, o.keys[m])
		o.open = append(o.open, m)
	}
	o.poison = o.open[draw("poison", len(o.open))]
	for range draw("owners", 3*rules.Attempts) {
		if err := o.own(making(rules), 1+draw("turns", 6)); err != nil {
			return err
		}
		leave := o.handOver
		if draw.yes("crash", 2) {
			leave = o.crash
		}
		if err := leave(); err != nil {
			return err
		}
	}
	if err := o.own(making(rules), 200); err != nil {
		return err
	}
	most := rules.Attempts + o.unknown
	switch {
	case len(o.open) > 0:
		return fmt.Errorf("%v is not acknowledged", o.open[0])
	case o.tries > most:
		return fmt.Errorf("%v was tried %d times in all, at most %d are right", o.poison, o.tries, most)
	}
	return nil
}

// patient is after how many turns of one owner nothing takes long any more: draws need not be fair.
const patient = 100

// own is an owner's work for some turns.
func (o *owners) own(f machine, turns int) error {
	o.flow, o.here = f, 0
	waiting := slices.Clone(o.open)
	for n := 0; n < turns && len(o.open) > 0; n++ {
		for len(waiting) > 0 && o.flow.Free() > 0 {
			o.receive(waiting[0])
			waiting = waiting[1:]
		}
		works, wake := o.flow.Next(o.now)
		o.under = append(o.under, works...)
		for _, w := range slices.Clone(o.under) {
			if n < patient && o.draw.yes("takes long", 4) {
				continue
			}
			if err := o.end(w); err != nil {
				return err
			}
		}
		o.confirm()
		if o.draw.yes("keep", 2) {
			o.keep()
		}
		if wake.After(o.now) {
			o.now = wake
		}
	}
	return nil
}

func (o *owners) receive(m *message) {
	before := o.kept[m]
	if o.counts {
		before = max(before, o.given[m])
	}
	o.given[m]++
	o.flow.Received(m, m.partition, o.keys[m], flow.Past{Before: before})
}

// end ends work that was under way.
func (o *owners) end(w work) error {
	o.under = slices.DeleteFunc(o.under, func(u work) bool { return u.Items[0] == w.Items[0] })
	errs := make([]error, len(w.Items))
	at := slices.IndexFunc(w.Items, func(i *item) bool { return i.Message == o.poison })
	switch {
	case w.DeadLetter && at < 0:
		return fmt.Errorf("%v is good, and became a dead letter", w.Items[0].Message)
	case w.DeadLetter && o.here == 0:
		return fmt.Errorf("%v became a dead letter, and was not tried by its owner", o.poison)
	case !w.DeadLetter && at >= 0:
		errs[at] = errFailed
		o.tries++
		o.here++
	}
	before := o.flow.Counted()
	o.flow.Finished(w, errs, o.now)
	if counted := o.flow.Counted() - before; errs[max(0, at)] != nil && counted == 0 {
		o.unknown++
	} else {
		o.unkept += counted
	}
	return nil
}

func (o *owners) confirm() {
	items := o.flow.Acks()
	for _, i := range items {
		o.open = slices.DeleteFunc(o.open, func(m *message) bool { return m == i.Message })
	}
	o.flow.Acked(items)
}

// keep keeps what is known of messages that are to be tried again, or to become dead letters.
func (o *owners) keep() {
	for _, i := range o.flow.Failing() {
		if o.kept[i.Message] = i.Attempts(); i.Message == o.poison {
			o.unkept = 0
		}
	}
}

// handOver ends in order: all that is under way ends, and attempts are kept.
func (o *owners) handOver() error {
	o.flow.Drain()
	for {
		for len(o.under) > 0 {
			if err := o.end(o.under[0]); err != nil {
				return err
			}
		}
		if o.under, _ = o.flow.Next(o.now); len(o.under) == 0 {
			break
		}
	}
	o.confirm()
	o.keep()
	o.next()
	return nil
}

// crash ends with nothing kept.
func (o *owners) crash() error {
	for _, w := range o.under {
		if slices.ContainsFunc(w.Items, func(i *item) bool { return i.Message == o.poison }) && !w.DeadLetter {
			o.tries++
			o.unknown++
		}
	}
	o.under = nil
	o.next()
	return nil
}

// next is for the next owner. A message that has had its attempts, and is no dead letter, is tried once more.
func (o *owners) next() {
	if slices.Contains(o.open, o.poison) && o.kept[o.poison] >= o.rules.Attempts {
		o.unknown++
	}
	o.unknown += o.unkept
	o.unkept = 0
}
