package subscribe

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/shardctl/shardctl/internal/subscribe/internal/flow"
)

// feed delivers what one open subscription gives. One goroutine owns it and its flow; others receive, deliver and
// acknowledge, and report to it.
type feed struct {
	run    *run
	sub    Subscription
	flow   *flow.Flow[Message]
	others sync.WaitGroup // goroutines of poller and committer

	poller    *poller
	workers   *deliverers
	committer committer
	broken    error // why the subscription is to be closed
}

func newFeed(s *run, sub Subscription) *feed {
	_, pausing := sub.(Pausing)
	rules := flow.Rules{
		InFlight: s.InFlight, Order: flow.Order(s.Order), PerPartition: pausing,
		Batch: s.receiver.Batch(), Attempts: s.Retry.Attempts, DeadLetters: s.deadLetters != "",
		Cumulative: sub.Cumulative(),
		Delay:      func(failures int) time.Duration { return s.Retry.Backoff.Delay(failures - 1) },
		MaxDelay:   s.Retry.Backoff.Max,
	}
	f := &feed{
		run: s, sub: sub, flow: flow.New[Message](rules),
		committer: committer{work: s.work, lease: s.env.Lease, sub: sub, acked: make(chan acked)},
	}
	if s.Retry.Attempts > 1 {
		f.committer.keeping, _ = sub.(Keeping)
	}
	f.workers = newDeliverers(f.deliver)
	return f
}

// loop delivers until the subscription breaks, with the reason, or ctx ends. It returns when no delivery is under way.
func (f *feed) loop(ctx context.Context) error {
	receiving, endReceiving := context.WithCancel(ctx)
	f.poller = newPoller(receiving, f.sub)
	f.others.Go(f.poller.serve)
	defer f.others.Wait()
	defer f.workers.end()
	defer close(f.poller.want)
	defer endReceiving()
	timer := time.NewTimer(0)
	defer timer.Stop()
	asked := ctx.Done()
	for {
		if wake := f.begin(); !wake.IsZero() { //nolint:contextcheck // deliveries outlive the request to stop
			timer.Reset(time.Until(wake))
		}
		if f.over(ctx) {
			return f.result()
		}
		if f.poller.busy && f.broken == nil && f.flow.Free() == f.run.InFlight {
			f.workers.rest()
		}
		select {
		case r := <-f.poller.received:
			f.poller.done(r)
			if ctx.Err() == nil { // else it comes again
				f.take(r)
			}
		case <-f.workers.bell:
			f.finish(ctx, f.workers.take())
		case done := <-f.committer.acked:
			f.committer.busy = false
			f.flow.Acked(done.items)
			f.fail(done.err)
			if done.unkept != nil {
				f.run.env.Log.V(1).Info("The attempts of messages were not kept", "reason", done.unkept.Error())
				f.flow.NotKept()
			}
		case <-asked:
			asked = nil
			f.flow.Drain()
			endReceiving()
		case <-timer.C:
		}
	}
}

// begin begins what may be begun now, and says when to look again.
func (f *feed) begin() (wake time.Time) {
	switch {
	case f.run.work.Err() != nil:
		return time.Time{} // the lease is lost, or the time to end in is over
	case !f.run.env.Lease.Valid():
		return time.Now().Add(leaseLook) // it is renewed, or the run is about to be asked to stop
	}
	now := time.Now()
	works, wake := f.flow.Next(now)
	for _, w := range works {
		f.workers.begin(w)
	}
	if due := f.acknowledge(now); !due.IsZero() && (wake.IsZero() || due.Before(wake)) {
		wake = due
	}
	f.poller.poll(f.flow.Free(), f.flow.Full())
	return wake
}

// acknowledge begins to acknowledge what may be, and to keep attempts, or says when to do so.
func (f *feed) acknowledge(now time.Time) (due time.Time) {
	if f.committer.busy || f.broken != nil {
		return time.Time{}
	}
	items, failing, due := f.committer.take(f.flow, now)
	if len(items)+len(failing) == 0 {
		return due
	}
	f.committer.busy = true
	f.others.Go(func() { f.committer.commit(items, failing) })
	return time.Time{}
}

// over says that nothing more can happen.
func (f *feed) over(ctx context.Context) bool {
	if ctx.Err() == nil && f.broken == nil && f.flow.Halted() == nil {
		return false
	}
	if f.broken != nil || f.run.work.Err() != nil {
		f.flow.Stop()
	}
	f.flow.Drain()
	if f.committer.busy || f.flow.Busy() {
		return false
	}
	return f.run.work.Err() != nil || f.broken != nil || !f.flow.Unacknowledged() && !f.committer.unkept(f.flow)
}

func (f *feed) result() error {
	if item := f.flow.Halted(); item != nil {
		return fmt.Errorf("%w: delivery of %s failed in %d attempts, and there is no retry.deadLetter; see to it, "+
			"then `shardctl rerun %s/%s`: %w", ErrStop, item.Message.ID, item.Attempts(), f.run.env.Group, f.run.env.Name,
			item.Err)
	}
	return f.broken
}

// fail ends the feed with the first error.
func (f *feed) fail(err error) {
	if err != nil && f.broken == nil {
		f.broken = err
	}
}

// finish takes how deliveries have ended. A dead letter that was not published ends the feed, as a broken connection
// may be the cause.
func (f *feed) finish(ctx context.Context, all []finished) {
	if ctx.Err() != nil {
		f.flow.Drain() // that may be why they failed
	}
	now := time.Now()
	for _, done := range all {
		f.flow.Finished(done.work, done.errs, now)
		f.report(done)
		if done.work.DeadLetter && f.run.work.Err() == nil {
			f.fail(done.errs[0])
		}
	}
	f.run.health.message(f.complaint())
}

func (f *feed) take(r received) {
	for _, m := range r.messages {
		past, known := f.run.past[m.Unique()]
		if delete(f.run.past, m.Unique()); !known {
			past.Before = m.Delivered
		}
		f.flow.Received(m, m.Partition, m.Key, past)
	}
	f.fail(r.err)
}

// deliver has work done, and says for each message how that ended.
func (f *feed) deliver(w flow.Work[Message]) []error {
	if w.DeadLetter {
		return []error{f.deadLetter(w.Items[0])}
	}
	ctx, span := f.run.env.BeginDelivery(f.run.work, w.Items[0].Message.ID, len(w.Items))
	trace := span.Trace()
	deliveries := make([]Delivery, len(w.Items))
	for i, item := range w.Items {
		deliveries[i] = Delivery{Message: item.Message, Attempt: item.Attempts() + 1, Start: f.run.env.Start, Trace: trace}
	}
	errs := f.run.receiver.Deliver(ctx, deliveries)
	for len(errs) < len(deliveries) {
		errs = append(errs, errors.New("the receiver said nothing of the message"))
	}
	var failed error
	if i := slices.IndexFunc(errs, func(err error) bool { return err != nil }); i >= 0 {
		failed = errs[i]
	}
	span.End(failed)
	return errs
}

// deadLetter makes a message a dead letter.
func (f *feed) deadLetter(item *flow.Item[Message]) error {
	ctx, cancel := context.WithTimeout(f.run.work, ackTimeout)
	defer cancel()
	why := Why{
		Identity: f.run.env.Identity, Source: f.run.title, ID: item.Message.ID, Attempts: item.Attempts(), Err: item.Err,
	}
	if err := f.sub.DeadLetter(ctx, f.run.deadLetters, item.Message, why); err != nil {
		return fmt.Errorf("dead letter to %s: %w", f.run.deadLetters, err)
	}
	return nil
}

// report says what became of a delivery, where that is news.
func (f *feed) report(done finished) {
	for i, item := range done.work.Items {
		err := done.errs[i]
		switch {
		case done.work.DeadLetter && err == nil:
			f.run.env.Log.Info("A message is a dead letter now", "position", item.Message.ID, "to", f.run.deadLetters,
				"attempt", item.Attempts(), "reason", item.Err.Error())
		case err != nil && !done.work.DeadLetter && item.Failures == 1 && !item.Over() && f.run.work.Err() == nil:
			f.run.env.Log.Error(err, "The delivery of a message failed, and is tried again", "position", item.Message.ID)
		case err == nil && item.Failures > 0:
			f.run.env.Log.Info("A message that had failed is delivered", "position", item.Message.ID, "attempt",
				item.Attempts()+1)
		}
	}
}

// complaint is about the message that has failed most often; nil: there is none.
func (f *feed) complaint() error {
	item := f.flow.Worst()
	if item == nil {
		return nil
	}
	of := ""
	if f.run.Retry.Attempts > 0 {
		of = fmt.Sprintf(" of %d", f.run.Retry.Attempts)
	}
	return fmt.Errorf("delivery of %s failed (attempt %d%s): %w", item.Message.ID, item.Attempts(), of, item.Err)
}
