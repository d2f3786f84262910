package subscribe

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/tasks/subscribe/internal/flow"
)

// ackTimeout is how long a broker may take to confirm an acknowledgement. After that the subscription is opened again.
const ackTimeout = 10 * time.Second

// ackPause is the least time between the beginnings of two acknowledgements, while more can gather. A broker confirms
// many at once for the price of one.
const ackPause = 5 * time.Millisecond

// feed delivers what one open subscription gives. One goroutine owns it and its flow; others receive, deliver and
// acknowledge, and report to it.
type feed struct {
	*run
	sub  Subscription
	flow *flow.Flow[Message]

	want     chan wanted
	received chan received
	acked    chan acked
	others   sync.WaitGroup
	workers  *deliverers

	keeper   keeper
	stopping bool

	receiving, acking bool
	reception         context.Context    //nolint:containedctx // of all calls of Receive
	interrupt         context.CancelFunc // ends the call of Receive that goes on
	paused            []string           // partitions
	ackedAt           time.Time          // when the last acknowledgement began
	broken            error              // why the subscription is to be closed
}

// wanted is a call of Receive.
type wanted struct {
	ctx  context.Context //nolint:containedctx // of the call
	most int
}

type received struct {
	messages []Message
	err      error
}

type acked struct {
	items  []*flow.Item[Message]
	err    error
	unkept error // why attempts were not kept
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
		// The last report of what receives may come when the loop is over.
		want: make(chan wanted, 1), received: make(chan received, 1), acked: make(chan acked),
	}
	if s.Retry.Attempts > 1 {
		f.keeper.sub, _ = sub.(Keeping)
	}
	f.workers = newDeliverers(f.deliver)
	return f
}

// loop delivers until the subscription breaks, with the reason, or ctx ends. It returns when no delivery is under way.
func (f *feed) loop(ctx context.Context) error {
	receiving, endReceiving := context.WithCancel(ctx)
	f.reception = receiving
	f.others.Go(func() { f.receive(receiving) })
	defer f.others.Wait()
	defer f.workers.end()
	defer close(f.want)
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
		if f.receiving && f.broken == nil && f.flow.Free() == f.InFlight {
			f.workers.rest()
		}
		select {
		case r := <-f.received:
			f.receiving = false
			f.interrupt()
			if ctx.Err() == nil { // else it comes again
				f.take(r)
			}
		case <-f.workers.bell:
			f.finish(ctx, f.workers.take())
		case done := <-f.acked:
			f.acking = false
			f.flow.Acked(done.items)
			f.fail(done.err)
			f.notKept(done.unkept)
		case <-asked:
			asked, f.stopping = nil, true
			f.flow.Drain()
			endReceiving()
		case <-timer.C:
		}
	}
}

// begin begins what may be begun now, and says when to look again.
func (f *feed) begin() (wake time.Time) {
	switch {
	case f.work.Err() != nil:
		return time.Time{} // the lease is lost, or the time to end in is over
	case !f.env.Lease.Valid():
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
	f.ask()
	return wake
}

// ask begins to receive what may be received. A call that leaves out other partitions than it should is ended first.
func (f *feed) ask() {
	full := f.flow.Full()
	changed := !slices.Equal(full, f.paused)
	free := f.flow.Free()
	switch {
	case f.receiving && changed:
		f.interrupt()
	case f.receiving || free == 0:
	default:
		if pausing, ok := f.sub.(Pausing); ok && changed {
			pausing.Pause(full)
			f.paused = full
		}
		w := wanted{most: free}
		w.ctx, f.interrupt = context.WithCancel(f.reception)
		f.receiving = true
		f.want <- w
	}
}

// acknowledge begins to acknowledge what may be, and to keep attempts, or says when to do so.
func (f *feed) acknowledge(now time.Time) (due time.Time) {
	if f.acking || f.broken != nil {
		return time.Time{}
	}
	var items []*flow.Item[Message]
	var failing []Message
	if f.flow.Unacknowledged() {
		if due = f.ackedAt.Add(ackPause); !f.flow.Gathers() || !now.Before(due) {
			items, f.ackedAt = f.flow.Acks(), now
		}
	}
	switch keep := f.keeper.take(f.flow.Counted(), f.ending(), now); {
	case keep.Equal(now):
		failing = attempts(f.flow.Failing(), f.flow.Halted())
	case due.IsZero() || !keep.IsZero() && keep.Before(due):
		due = keep
	}
	if len(items)+len(failing) == 0 {
		return due
	}
	f.acking = true
	f.others.Go(func() { f.acked <- acked{items, f.ack(items), f.keep(failing)} })
	return time.Time{}
}

// ending says that no more deliveries begin.
func (f *feed) ending() bool { return f.stopping || f.flow.Halted() != nil }

// notKept has attempts kept again that were not. The last time is not repeated.
func (f *feed) notKept(err error) {
	if err == nil {
		return
	}
	f.env.Log.V(1).Info("The attempts of messages were not kept", "reason", err.Error())
	if !f.ending() {
		f.keeper.failed()
	}
}

// over says that nothing more can happen.
func (f *feed) over(ctx context.Context) bool {
	if ctx.Err() == nil && f.broken == nil && f.flow.Halted() == nil {
		return false
	}
	if f.broken != nil || f.work.Err() != nil {
		f.flow.Stop()
	}
	f.flow.Drain()
	if f.acking || f.flow.Busy() {
		return false
	}
	return f.work.Err() != nil || f.broken != nil || !f.flow.Unacknowledged() && !f.keeper.unkept(f.flow.Counted())
}

func (f *feed) result() error {
	if item := f.flow.Halted(); item != nil {
		return fmt.Errorf("%w: delivery of %s failed in %d attempts, and there is no retry.deadLetter; see to it, "+
			"then `shardctl rerun %s/%s`: %w", ErrStop, item.Message.ID, item.Attempts(), f.env.Group, f.env.Name,
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
		if done.work.DeadLetter && f.work.Err() == nil {
			f.fail(done.errs[0])
		}
	}
	if len(f.flow.Failing()) == 0 {
		f.keeper.calm()
	}
	f.health.message(f.complaint())
}

// receive asks the broker for messages whenever it may take more of them.
func (f *feed) receive(ctx context.Context) {
	for w := range f.want {
		messages, err := f.sub.Receive(w.ctx, w.most) //nolint:contextcheck // it is a child of ctx
		if ctx.Err() == nil && w.ctx.Err() != nil && errors.Is(err, context.Canceled) {
			err = nil // it was interrupted
		}
		f.received <- received{messages, err}
		if err != nil {
			return
		}
	}
}

func (f *feed) take(r received) {
	for _, m := range r.messages {
		past, known := f.past[m.Unique()]
		if delete(f.past, m.Unique()); !known {
			past.Before = m.Delivered
		}
		f.flow.Received(m, m.Partition, m.Key, past)
	}
	if r.err != nil {
		f.receiving = true // there is no one to ask any more
		f.fail(r.err)
	}
}

// deliver has work done, and says for each message how that ended.
func (f *feed) deliver(w flow.Work[Message]) []error {
	if w.DeadLetter {
		return []error{f.deadLetter(w.Items[0])}
	}
	ctx, span := f.env.BeginDelivery(f.work, w.Items[0].Message.ID, len(w.Items))
	trace := span.Trace()
	deliveries := make([]Delivery, len(w.Items))
	for i, item := range w.Items {
		deliveries[i] = Delivery{Message: item.Message, Attempt: item.Attempts() + 1, Start: f.env.Start, Trace: trace}
	}
	errs := f.receiver.Deliver(ctx, deliveries)
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
	ctx, cancel := context.WithTimeout(f.work, ackTimeout)
	defer cancel()
	why := Why{
		Identity: f.env.Identity, Source: f.title, ID: item.Message.ID, Attempts: item.Attempts(), Err: item.Err,
	}
	if err := f.sub.DeadLetter(ctx, f.deadLetters, item.Message, why); err != nil {
		return fmt.Errorf("dead letter to %s: %w", f.deadLetters, err)
	}
	return nil
}

// whileOwned ends with the lease, or when the broker has had time to answer.
func (f *feed) whileOwned() (context.Context, context.CancelFunc) {
	within, end := context.WithTimeout(f.work, ackTimeout)
	ctx, cancel := context.WithDeadlineCause(within, f.env.Lease.Deadline(), elect.ErrLeaseLost)
	return ctx, func() { cancel(); end() }
}

// keep keeps attempts, unless the lease ends before.
func (f *feed) keep(messages []Message) error {
	if len(messages) == 0 {
		return nil
	}
	ctx, cancel := f.whileOwned()
	defer cancel()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return f.keeper.sub.KeepDelivered(ctx, messages)
}

// ack acknowledges messages, unless the lease ends before.
func (f *feed) ack(items []*flow.Item[Message]) error {
	if len(items) == 0 {
		return nil
	}
	messages := make([]Message, len(items))
	for i, item := range items {
		messages[i] = item.Message
	}
	ctx, cancel := f.whileOwned()
	defer cancel()
	if ctx.Err() != nil {
		return fmt.Errorf("acknowledge %s: %w", messages[len(messages)-1].ID, context.Cause(ctx))
	}
	if err := f.sub.Ack(ctx, messages); err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		return fmt.Errorf("acknowledge %s: %w", messages[len(messages)-1].ID, err)
	}
	return nil
}

// report says what became of a delivery, where that is news.
func (f *feed) report(done finished) {
	for i, item := range done.work.Items {
		err := done.errs[i]
		switch {
		case done.work.DeadLetter && err == nil:
			f.env.Log.Info("A message is a dead letter now", "position", item.Message.ID, "to", f.deadLetters, "attempt",
				item.Attempts(), "reason", item.Err.Error())
		case err != nil && !done.work.DeadLetter && item.Failures == 1 && !item.Over() && f.work.Err() == nil:
			f.env.Log.Error(err, "The delivery of a message failed, and is tried again", "position", item.Message.ID)
		case err == nil && item.Failures > 0:
			f.env.Log.Info("A message that had failed is delivered", "position", item.Message.ID, "attempt",
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
	if f.Retry.Attempts > 0 {
		of = fmt.Sprintf(" of %d", f.Retry.Attempts)
	}
	return fmt.Errorf("delivery of %s failed (attempt %d%s): %w", item.Message.ID, item.Attempts(), of, item.Err)
}
