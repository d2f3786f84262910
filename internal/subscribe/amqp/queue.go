package amqp

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/shardctl/shardctl/internal/subscribe"
	"github.com/shardctl/shardctl/internal/subscribe/internal/recall"
)

// queue is a subscription to a classic or quorum queue.
type queue struct {
	*consumer

	mu   sync.Mutex
	kept *recall.Attempts // by IDs; nil: not read yet
}

// openQueue consumes a queue alone. The priority is the default one: streams refuse to be given any, and without it
// they would let themselves be read as queues, from the newest message on.
func openQueue(ctx context.Context, c *consumer) (*queue, error) {
	if err := c.open(ctx); err != nil {
		return nil, err
	}
	return &queue{consumer: c}, c.consume(ctx, true, amqp091.Table{"x-priority": int32(0)})
}

// attempts are those in the checkpoint. To read it costs a write, so that is done where messages come again or fail.
func (q *queue) attempts(ctx context.Context) (*recall.Attempts, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.kept != nil {
		return q.kept, nil
	}
	value, err := q.session.Checkpoint.Value(ctx)
	if err != nil {
		return nil, fmt.Errorf("queue %q: read attempts: %w", q.queue, err)
	}
	var p position
	if json.Unmarshal(value, &p) != nil || p.Stream != q.queue {
		p = position{}
	}
	q.kept = recall.ParseAttempts(string(p.Attempts))
	return q.kept, nil
}

// named says whether the message has an ID that it has again when it comes again.
func named(m subscribe.Message) bool {
	d, ok := m.Ref.(*amqp091.Delivery)
	return ok && d.MessageId != ""
}

// Receive returns what the broker has sent. Attempts are what is known of them: quorum queues count returns, and others
// nothing.
func (q *queue) Receive(ctx context.Context, most int) ([]subscribe.Message, error) {
	messages, err := q.consumer.Receive(ctx, most)
	for i, m := range messages {
		if !m.Again || !named(m) {
			continue
		}
		within, cancel := context.WithTimeout(ctx, attemptsWithin)
		kept, err := q.attempts(within)
		if cancel(); err != nil {
			q.session.Log.V(1).Info("The attempts of messages are not known", "reason", err.Error())
			break
		}
		messages[i].Delivered = max(m.Delivered, kept.Of(m.ID))
	}
	return messages, err
}

// attemptsWithin is how long messages wait for what is known of their attempts.
const attemptsWithin = 2 * time.Second

// KeepDelivered keeps attempts in the checkpoint.
func (q *queue) KeepDelivered(ctx context.Context, messages []subscribe.Message) error {
	kept, err := q.attempts(ctx)
	if err != nil {
		return err
	}
	now := map[string]int{}
	for _, m := range messages {
		if named(m) {
			now[m.ID] = m.Delivered
		}
	}
	if len(now) == 0 {
		return nil
	}
	kept.Update(now)
	return position{Stream: q.queue, Attempts: json.RawMessage(kept.String())}.keep(ctx, q.session.Checkpoint)
}

// Cumulative is false: each message is acknowledged by itself.
func (q *queue) Cumulative() bool { return false }

// Ack acknowledges messages. The broker confirms no acknowledgement. A question about the queue, behind them on the
// same channel, is answered once they have arrived.
func (q *queue) Ack(ctx context.Context, messages []subscribe.Message) error {
	if err := context.Cause(ctx); err != nil {
		return fmt.Errorf("queue %q: acknowledge: %w", q.queue, err)
	}
	tags := tags(messages)
	err := q.channel.do(ctx, func() error {
		for _, tag := range q.inbox.unsent(tags) {
			if err := q.channel.ch.Ack(tag, false); err != nil {
				return err //nolint:wrapcheck // explained below
			}
		}
		_, err := q.inspect(q.channel.ch)
		return err
	})
	if err != nil {
		return q.failed(err)
	}
	q.inbox.acked(tags)
	q.forget(messages)
	return nil
}

// forget drops the attempts at messages that are acknowledged. The checkpoint has them until it is written again.
func (q *queue) forget(messages []subscribe.Message) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.kept == nil {
		return
	}
	q.kept.Drop(func(name string) bool {
		return slices.ContainsFunc(messages, func(m subscribe.Message) bool { return m.ID == name })
	})
}

// cancelWithin is how long a broker may take to take a consumer off its list.
const cancelWithin = 3 * time.Second

// Close gives back what was not acknowledged, and ends the connections. A quorum queue counts a consumer for a moment
// after its channel has ended, and only then has its messages back, so that moment is waited for.
func (q *queue) Close(ctx context.Context) error {
	if q.inbox.failure() == nil {
		waiting, cancel := context.WithTimeout(ctx, cancelWithin)
		_ = q.cancel(waiting) // where it fails, the broker does so when the connection ends
		cancel()
	}
	return q.consumer.Close(ctx)
}

// cancel ends the channel, and returns once the broker counts no consumer.
func (q *queue) cancel(ctx context.Context) error {
	if err := q.channel.do(ctx, q.channel.ch.Close); err != nil {
		return err
	}
	channel, err := q.link.channel(ctx)
	if err != nil {
		return err
	}
	look := time.NewTicker(10 * time.Millisecond)
	defer look.Stop()
	for {
		var at amqp091.Queue
		err := channel.do(ctx, func() (err error) {
			at, err = q.inspect(channel.ch)
			return err
		})
		if err != nil || at.Consumers == 0 {
			return err
		}
		select {
		case <-look.C:
		case <-ctx.Done():
			return ctx.Err() //nolint:wrapcheck // the caller's own
		}
	}
}

// Lag counts what is ready at the broker and what is not acknowledged here. The age is that of the oldest message, by
// the publisher's timestamp, to the second.
func (q *queue) Lag(ctx context.Context) (subscribe.Lag, error) {
	var at amqp091.Queue
	err := q.channel.do(ctx, func() (err error) {
		at, err = q.inspect(q.channel.ch)
		return err
	})
	if err != nil {
		return subscribe.Unknown, q.failed(err)
	}
	here, first := q.inbox.unacked()
	return lag(int64(at.Messages+here), first.at), nil
}

// lag has an age where there is a time to count from, or nothing to wait for.
func lag(messages int64, oldest time.Time) subscribe.Lag {
	l := subscribe.Lag{Messages: messages, Seconds: subscribe.Unknown.Seconds}
	switch {
	case messages == 0:
		l.Seconds = 0
	case !oldest.IsZero():
		l.Seconds = max(0, time.Since(oldest).Seconds())
	}
	return l
}
