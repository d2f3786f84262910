package flow_test

import (
	"errors"
	"slices"
	"time"

	"github.com/shardctl/shardctl/internal/subscribe/internal/flow"
)

// weak is a flow that breaks a rule, and what the model says of it.
type weak struct {
	name, seen string
	make       func(rules flow.Rules) machine
}

type theFlow = flow.Flow[*message]

// changed is a flow under other rules.
func changed(change func(rules *flow.Rules)) func(flow.Rules) machine {
	return func(rules flow.Rules) machine {
		change(&rules)
		return right(rules)
	}
}

func weakened() []weak {
	flowOf := func(rules flow.Rules) *theFlow { return flow.New[*message](rules) }
	return []weak{
		{"keys do not count", "while another of its lane is under way", func(r flow.Rules) machine {
			return keyless{flowOf(r)}
		}},
		{"keys always count", "begins while another of its lane is under way", changed(func(r *flow.Rules) {
			if r.Order == flow.OrderPartition {
				r.Order = flow.OrderKey
			}
		})},
		{"waits for keys without an order", "could begin and does not", changed(func(r *flow.Rules) {
			if r.Order == flow.OrderNone {
				r.Order = flow.OrderKey
			}
		})},
		{"a partition stops the others", "is not received from", changed(func(r *flow.Rules) {
			r.PerPartition = false
		})},
		{"swaps two in a batch", "out of order", func(r flow.Rules) machine { return swapping{flowOf(r)} }},
		{"swaps two on receipt", "out of order", func(r flow.Rules) machine { return &late{theFlow: flowOf(r)} }},
		{"one more in flight", "are free", func(r flow.Rules) machine { return excessive{flowOf(r)} }},
		{"does not count", "are free", func(r flow.Rules) machine { return generous{flowOf(r)} }},
		{"larger batches", "a batch has", changed(func(r *flow.Rules) { r.Batch++ })},
		{"more calls", "deliveries are under way", func(r flow.Rules) machine {
			more := r
			more.InFlight += r.Batch
			return doubled{flowOf(more), r.Batch}
		}},
		{"acknowledges with gaps", "before an earlier one of its partition", changed(func(r *flow.Rules) {
			r.Cumulative = false
		})},
		{"holds acknowledgements back", "could be acknowledged and is not", changed(func(r *flow.Rules) {
			r.Cumulative = true
		})},
		{
			"acknowledges what failed", "unacknowledged true, want <nil>",
			func(r flow.Rules) machine { return blind{flowOf(r)} },
		},
		{"acknowledges what is under way", "was not worked on", func(r flow.Rules) machine {
			return &eager{theFlow: flowOf(r)}
		}},
		{"acknowledges twice", "acknowledged twice", func(r flow.Rules) machine { return &twice{theFlow: flowOf(r)} }},
		{"loses an acknowledgement", "could be acknowledged and is not", func(r flow.Rules) machine {
			return forgetful{flowOf(r)}
		}},
		{"loses a message", "out of order", func(r flow.Rules) machine { return &lossy{theFlow: flowOf(r)} }},
		{"loses a lane", "could begin and does not", func(r flow.Rules) machine { return &lossy{theFlow: flowOf(r)} }},
		{"does not wait", "too early", func(r flow.Rules) machine { return hasty{flowOf(r)} }},
		{"forgets the past", "has failed 0 times", func(r flow.Rules) machine { return ignorant{flowOf(r)} }},
		{"forgets earlier owners", "times in all, at most", func(r flow.Rules) machine { return fresh{flowOf(r)} }},
		{"takes the broker's count for attempts", "is good, and became a dead letter", func(r flow.Rules) machine {
			return trusting{flowOf(r)}
		}},
		{"counts what fails after a stop", "the worst has failed", func(r flow.Rules) machine {
			return &counting{theFlow: flowOf(r)}
		}},
		{"sleeps on", "asks to be woken", func(r flow.Rules) machine { return sleepy{flowOf(r)} }},
		{"does not stop", "begins after a stop", func(r flow.Rules) machine { return unstoppable{flowOf(r)} }},
		{"begins all while it drains", "and nothing depends on it", func(r flow.Rules) machine {
			return undrained{flowOf(r)}
		}},
		{"drains nothing", "could begin and does not", func(r flow.Rules) machine { return abrupt{flowOf(r)} }},
		{"one more attempt", "is to become a dead letter: false, want true", changed(func(r *flow.Rules) {
			r.Attempts++
		})},
		{"tries again what was rejected", "is to become a dead letter: false, want true", func(r flow.Rules) machine {
			return unconvinced{flowOf(r)}
		}},
		{"waits less than it was asked to", "too early", changed(func(r *flow.Rules) { r.MaxDelay = 0 })},
		{"no dead letters", "halted by", changed(func(r *flow.Rules) { r.DeadLetters = false })},
		{"dead letters unasked", "halted by", changed(func(r *flow.Rules) { r.DeadLetters = true })},
		{"counts failures of a whole batch", "has failed 1 times, want 0", func(r flow.Rules) machine {
			return strict{flowOf(r)}
		}},
		{"charges all for the receiver", "has failed 1 times, want 0", func(r flow.Rules) machine {
			return harsh{flowOf(r)}
		}},
		{"charges no suspect", "the worst has failed", func(r flow.Rules) machine { return lenient{flowOf(r)} }},
		{"hides the worst", "the worst has failed", func(r flow.Rules) machine { return cheerful{flowOf(r)} }},
	}
}

type keyless struct{ *theFlow }

func (f keyless) Received(m *message, partition string, _ []byte, past flow.Past) {
	f.theFlow.Received(m, partition, nil, past)
}

// unconvinced takes no error for more than a failure.
type unconvinced struct{ *theFlow }

func (f unconvinced) Finished(w work, errs []error, now time.Time) {
	errs = slices.Clone(errs)
	for i, err := range errs {
		if errors.Is(err, errRejected) {
			errs[i] = errFailed
		}
	}
	f.theFlow.Finished(w, errs, now)
}

type swapping struct{ *theFlow }

func (f swapping) Next(now time.Time) ([]work, time.Time) {
	works, wake := f.theFlow.Next(now)
	for _, w := range works {
		slices.Reverse(w.Items)
	}
	return works, wake
}

// late passes a message on with the one after it, in the wrong order.
type late struct {
	*theFlow
	pending func()
}

func (f *late) Received(m *message, partition string, key []byte, past flow.Past) {
	pass := func() { f.theFlow.Received(m, partition, key, past) }
	if f.pending == nil && m.n%2 == 0 && f.Free() > 1 {
		f.pending = pass
		return
	}
	pass()
	if f.pending != nil {
		f.pending()
		f.pending = nil
	}
}

// strict charges each message of a batch that failed as a whole.
type strict struct{ *theFlow }

func (f strict) Finished(w work, errs []error, now time.Time) {
	if len(errs) > 1 && !slices.Contains(errs, nil) {
		for _, i := range w.Items {
			i.Failures++
		}
	}
	f.theFlow.Finished(w, errs, now)
}

// harsh takes a failure of the receiver for one of each message.
type harsh struct{ *theFlow }

func (f harsh) Finished(w work, errs []error, now time.Time) {
	for i := range errs {
		if errors.Is(errs[i], errTogether) {
			errs[i] = errTogether
		}
	}
	f.theFlow.Finished(w, errs, now)
}

// lenient never charges for it.
type lenient struct{ *theFlow }

func (f lenient) Finished(w work, errs []error, now time.Time) {
	if len(errs) == 1 && errors.Is(errs[0], errTogether) && w.Items[0].Failures > 0 {
		w.Items[0].Failures--
	}
	f.theFlow.Finished(w, errs, now)
}

type excessive struct{ *theFlow }

func (f excessive) Free() int { return f.theFlow.Free() + 1 }

// doubled has one more call under way. It keeps to what is free all the same.
type doubled struct {
	*theFlow
	more int
}

func (f doubled) Free() int { return max(0, f.theFlow.Free()-f.more) }

type generous struct{ *theFlow }

func (f generous) Acked(items []*item) {
	f.theFlow.Acked(slices.Concat(items, items[:min(1, len(items))]))
}

type blind struct{ *theFlow }

func (f blind) Finished(w work, errs []error, now time.Time) {
	f.theFlow.Finished(w, make([]error, len(errs)), now)
}

type eager struct {
	*theFlow
	begun []*item
}

func (f *eager) Next(now time.Time) ([]work, time.Time) {
	works, wake := f.theFlow.Next(now)
	for _, w := range works {
		f.begun = append(f.begun, w.Items...)
	}
	return works, wake
}

func (f *eager) Acks() []*item {
	f.theFlow.Acks()
	return f.begun
}

type twice struct {
	*theFlow
	last []*item
}

func (f *twice) Acks() []*item {
	acks := append(f.theFlow.Acks(), f.last...)
	f.last = acks[:min(1, len(acks))]
	return acks
}

type forgetful struct{ *theFlow }

func (f forgetful) Acks() []*item {
	acks := f.theFlow.Acks()
	return acks[:max(0, len(acks)-1)]
}

type lossy struct {
	*theFlow
	received int
}

func (f *lossy) Received(m *message, partition string, key []byte, past flow.Past) {
	if f.received++; f.received%5 != 0 {
		f.theFlow.Received(m, partition, key, past)
	}
}

// Free counts what was lost too, so that only the loss itself shows.
func (f *lossy) Free() int { return max(0, f.theFlow.Free()-f.received/5) }

type hasty struct{ *theFlow }

func (f hasty) Next(now time.Time) ([]work, time.Time) { return f.theFlow.Next(now.Add(time.Minute)) }

type ignorant struct{ *theFlow }

func (f ignorant) Received(m *message, partition string, key []byte, _ flow.Past) {
	f.theFlow.Received(m, partition, key, flow.Past{})
}

type fresh struct{ *theFlow }

func (f fresh) Received(m *message, partition string, key []byte, past flow.Past) {
	past.Before = 0
	f.theFlow.Received(m, partition, key, past)
}

// trusting leaves no attempt.
type trusting struct{ *theFlow }

func (f trusting) Received(m *message, partition string, key []byte, past flow.Past) {
	past.Failures, past.Err = past.Failures+past.Before, errFailed
	f.theFlow.Received(m, partition, key, past)
}

// counting begins nothing after a stop, and yet counts what fails.
type counting struct {
	*theFlow
	stopped bool
}

func (f *counting) Stop() { f.stopped = true }

func (f *counting) Next(now time.Time) ([]work, time.Time) {
	if f.stopped {
		return nil, time.Time{}
	}
	return f.theFlow.Next(now)
}

func (f *counting) Free() int {
	if f.stopped {
		return 0
	}
	return f.theFlow.Free()
}

type sleepy struct{ *theFlow }

func (f sleepy) Next(now time.Time) ([]work, time.Time) {
	works, _ := f.theFlow.Next(now)
	return works, time.Time{}
}

type unstoppable struct{ *theFlow }

func (unstoppable) Stop() {}

type undrained struct{ *theFlow }

func (undrained) Drain() {}

type abrupt struct{ *theFlow }

func (f abrupt) Drain() { f.Stop() }

type cheerful struct{ *theFlow }

func (cheerful) Worst() *item { return nil }
