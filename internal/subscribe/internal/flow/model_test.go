package flow_test

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/shardctl/shardctl/internal/subscribe/internal/flow"
)

type (
	item = flow.Item[*message]
	work = flow.Work[*message]
)

// machine is what a flow does. Weakened ones stand in for it.
type machine interface {
	Free() int
	Full() []string
	Received(m *message, partition string, key []byte, past flow.Past)
	Next(now time.Time) ([]work, time.Time)
	Finished(w work, errs []error, now time.Time)
	Acks() []*item
	Acked(items []*item)
	Drain()
	Stop()
	Busy() bool
	Unacknowledged() bool
	Halted() *item
	Worst() *item
	Failing() []*item
	Counted() int
}

// message is one message, as the model knows it.
type message struct {
	n          int
	partition  string
	lane       string
	before     int // attempts of earlier flows that count
	failures   int
	deadLetter bool // is to become a dead letter
	alone      bool // is delivered by itself
	suspect    bool // has failed together with others
	done       bool
	given      bool // to be acknowledged
	acked      bool
	owed       bool // may begin after a drain
	refused    bool // has failed last
}

func (m *message) String() string { return fmt.Sprintf("message %d of %s", m.n, m.lane) }

// model says what a flow may do. It keeps all messages in plain lists, and looks through them each time.
type model struct {
	rules   flow.Rules
	all     []*message
	under   []work
	due     map[string]time.Time // of lanes
	stopped bool
	drains  bool
	halted  *message
}

// lane are the messages of a lane that are not done, in order of receipt.
func (m *model) lane(name string) []*message {
	return slices.DeleteFunc(slices.Clone(m.all), func(x *message) bool { return x.lane != name || x.done })
}

// idle are the lanes with messages of which none is under way.
func (m *model) idle() (names []string) {
	for _, x := range m.all {
		if !x.done && !m.busy(x.lane) && !slices.Contains(names, x.lane) {
			names = append(names, x.lane)
		}
	}
	return names
}

func (m *model) busy(lane string) bool {
	return slices.ContainsFunc(m.under, func(w work) bool {
		return slices.ContainsFunc(w.Items, func(i *item) bool { return i.Message.lane == lane })
	})
}

func (m *model) calls() int { return max(1, min(256, m.rules.InFlight/m.rules.Batch)) }

// begin judges work that the flow wants to begin.
func (m *model) begin(w work, now time.Time) error {
	switch {
	case m.stopped && !m.drains:
		return fmt.Errorf("%v begins after a stop", w.Items[0].Message)
	case len(w.Items) < 1 || len(w.Items) > m.rules.Batch || w.DeadLetter && len(w.Items) != 1:
		return fmt.Errorf("a delivery of %d messages, letter %v: a batch has %d", len(w.Items), w.DeadLetter, m.rules.Batch)
	case len(m.under) >= m.calls():
		return fmt.Errorf("more than %d deliveries are under way", m.calls())
	}
	next := map[string]int{} // place in the lane
	for _, i := range w.Items {
		x := i.Message
		lane := m.lane(x.lane)
		switch at := next[x.lane]; {
		case m.drains && !x.owed:
			return fmt.Errorf("%v begins after a stop, and nothing depends on it", x)
		case m.busy(x.lane):
			return fmt.Errorf("%v begins while another of its lane is under way", x)
		case at >= len(lane) || lane[at] != x:
			return fmt.Errorf("%v begins out of order: the next is %v", x, lane[min(at, len(lane)-1)])
		case now.Before(m.due[x.lane]):
			return fmt.Errorf("%v begins %s too early", x, m.due[x.lane].Sub(now))
		case x.suspect && !w.DeadLetter && m.trial():
			return fmt.Errorf("%v begins beside another suspect", x)
		case x.alone && len(w.Items) > 1:
			return fmt.Errorf("%v goes with others, and has failed before", x)
		case x.deadLetter != w.DeadLetter:
			return fmt.Errorf("%v is to become a dead letter: %v, want %v", x, w.DeadLetter, x.deadLetter)
		case i.Failures != x.failures:
			return fmt.Errorf("%v has failed %d times, want %d", x, i.Failures, x.failures)
		case i.Before != x.before:
			return fmt.Errorf("%v was tried %d times before, want %d", x, i.Before, x.before)
		}
		next[x.lane]++
	}
	m.under = append(m.under, w)
	return nil
}

// rest judges what the flow leaves for later: nothing that could begin now, and the time of the next that can then.
func (m *model) rest(now, wake time.Time) error {
	var want time.Time
	for _, lane := range m.idle() {
		switch due := m.due[lane]; {
		case m.stopped && (!m.drains || !m.lane(lane)[0].owed):
		case due.After(now):
			if want.IsZero() || due.Before(want) {
				want = due
			}
		case m.lane(lane)[0].suspect && !m.lane(lane)[0].deadLetter && m.trial():
		case len(m.under) < m.calls():
			return fmt.Errorf("lane %s could begin and does not", lane)
		}
	}
	if !wake.Equal(want) {
		return fmt.Errorf("asks to be woken at %s, want %s", wake, want)
	}
	return nil
}

// finish notes how work ended.
func (m *model) finish(w work, errs []error, now time.Time) {
	m.under = slices.DeleteFunc(m.under, func(u work) bool { return u.Items[0] == w.Items[0] })
	failed := map[string]bool{}
	counts := len(errs) == 1 || slices.Contains(errs, nil) // else one may have failed all
	for i, it := range w.Items {
		x := it.Message
		switch {
		case failed[x.lane]:
		case errs[i] == nil:
			x.done, x.refused = true, false
		default:
			together := errors.Is(errs[i], errTogether)
			failed[x.lane] = true
			m.fail(x, counts && !w.DeadLetter && (!together || x.suspect), errs[i], now)
			x.refused, x.alone, x.suspect = true, true, x.suspect || together
		}
	}
}

// trial says whether a suspect is being delivered.
func (m *model) trial() bool {
	return slices.ContainsFunc(m.under, func(w work) bool { return w.Items[0].Message.suspect && !w.DeadLetter })
}

func (m *model) fail(x *message, counts bool, err error, now time.Time) {
	if counts && !m.stopped {
		x.failures++
	}
	x.owed = x.owed && !m.stopped
	wait := m.rules.Delay(max(1, x.failures))
	if errors.Is(err, errLater) {
		wait = max(wait, m.rules.MaxDelay) // it asks for more
	}
	m.due[x.lane] = now.Add(wait)
	over := m.rules.Attempts > 0 && x.before+x.failures >= m.rules.Attempts
	switch {
	case !counts || m.stopped:
	case m.rules.DeadLetters && (over || errors.Is(err, errRejected)):
		x.deadLetter, m.due[x.lane] = true, now
	case over && !m.rules.DeadLetters:
		if m.stopped = true; m.halted == nil {
			m.halted = x
		}
	}
}

// drain marks what others depend on: they are worked on, or are being, and cannot be acknowledged without it.
func (m *model) drain() {
	if m.stopped {
		return
	}
	m.stopped, m.drains = true, true
	for _, x := range m.all {
		x.owed = m.rules.Cumulative && !x.done && !m.begun(x) && !x.alone &&
			slices.ContainsFunc(m.all, func(y *message) bool {
				return y.n > x.n && y.partition == x.partition && (y.done || m.begun(y))
			})
	}
}

func (m *model) begun(x *message) bool {
	return slices.ContainsFunc(m.under, func(w work) bool {
		return slices.ContainsFunc(w.Items, func(i *item) bool { return i.Message == x })
	})
}

// stuck is a message that was worked on, and whose acknowledgement waits for one that has not failed.
func (m *model) stuck() *message {
	for _, x := range m.all {
		if x.done && !x.given && !slices.ContainsFunc(m.all, func(y *message) bool {
			return y.n < x.n && y.partition == x.partition && y.refused
		}) {
			return x
		}
	}
	return nil
}

// acks judges what the flow gives to be acknowledged.
func (m *model) acks(items []*item) error {
	for _, i := range items {
		x := i.Message
		switch {
		case !x.done:
			return fmt.Errorf("%v is acknowledged, and was not worked on", x)
		case x.given:
			return fmt.Errorf("%v is acknowledged twice", x)
		case m.rules.Cumulative && m.before(x):
			return fmt.Errorf("%v is acknowledged before an earlier one of its partition", x)
		}
		x.given = true
	}
	if x := m.toAck(); x != nil {
		return fmt.Errorf("%v could be acknowledged and is not", x)
	}
	return nil
}

// before says whether an earlier message of the partition was not given to be acknowledged.
func (m *model) before(x *message) bool {
	return slices.ContainsFunc(m.all, func(y *message) bool {
		return y.n < x.n && y.partition == x.partition && !y.given
	})
}

// toAck is a message that may be acknowledged.
func (m *model) toAck() *message {
	for _, x := range m.all {
		if x.done && !x.given && (!m.rules.Cumulative || !m.before(x)) {
			return x
		}
	}
	return nil
}

// held counts messages that are not acknowledged: of each partition with one that failed, and of all others.
func (m *model) held() (apart map[string]int, others int) {
	apart = map[string]int{}
	for _, x := range m.all {
		if m.rules.PerPartition && x.alone && !x.done {
			apart[x.partition] = 0
		}
	}
	for _, x := range m.all {
		switch _, ok := apart[x.partition]; {
		case x.acked:
		case ok:
			apart[x.partition]++
		default:
			others++
		}
	}
	return apart, others
}

// free is how many messages may be received, and of which partitions none.
func (m *model) free() (free int, full []string) {
	apart, others := m.held()
	free = max(0, m.rules.InFlight-others)
	for name, held := range apart {
		if held >= m.rules.InFlight {
			full = append(full, name)
		} else {
			free = min(free, m.rules.InFlight-held)
		}
	}
	if m.stopped {
		free = 0
	}
	slices.Sort(full)
	return free, full
}

// agrees compares what the flow says of itself.
func (m *model) agrees(f machine) error {
	free, full := m.free()
	worst, counted := 0, 0
	for _, x := range m.all {
		if counted += x.failures; !x.done && x.failures > 0 {
			worst = max(worst, x.before+x.failures)
		}
	}
	got := 0
	if i := f.Worst(); i != nil {
		got = i.Attempts()
	}
	switch halted := f.Halted(); {
	case f.Free() != free:
		return fmt.Errorf("%d are free, want %d", f.Free(), free)
	case !slices.Equal(slices.Sorted(slices.Values(f.Full())), full):
		return fmt.Errorf("partitions %v are full, want %v", f.Full(), full)
	case f.Busy() != (len(m.under) > 0):
		return fmt.Errorf("busy %v with %d deliveries under way", f.Busy(), len(m.under))
	case f.Unacknowledged() != (m.toAck() != nil):
		return fmt.Errorf("unacknowledged %v, want %v", f.Unacknowledged(), m.toAck())
	case (halted == nil) != (m.halted == nil) || halted != nil && halted.Message != m.halted:
		return fmt.Errorf("halted by %v, want %v", halted, m.halted)
	case got != worst:
		return fmt.Errorf("the worst has failed %d times, want %d", got, worst)
	case f.Counted() != counted:
		return fmt.Errorf("%d failures count, want %d", f.Counted(), counted)
	}
	return nil
}
