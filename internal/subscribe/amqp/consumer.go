package amqp

import (
	"context"
	"errors"
	"sync"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/shardctl/shardctl/internal/subscribe"
)

// consumer is what queues and streams have in common: a channel that consumes, and what it has brought.
type consumer struct {
	reader

	link        *link
	channel     *channel // that consumes
	inbox       *inbox
	deadLetters *deadLetters
	session     subscribe.Session
	prefetch    int
	warned      bool // that messages have no name; of Receive
}

func newConsumer(s Source, l *link, session subscribe.Session) *consumer {
	return &consumer{
		reader:      newReader(s),
		link:        l,
		inbox:       newInbox(),
		deadLetters: newDeadLetters(l.address, session),
		session:     session,
		prefetch:    s.prefetch(session.InFlight),
	}
}

// open opens the channel that will consume.
func (c *consumer) open(ctx context.Context) (err error) {
	if c.channel, err = c.link.channel(ctx); err != nil {
		return c.link.explain(c.queue, err)
	}
	return nil
}

// consume begins to receive. Exclusive: no one else may consume the queue.
func (c *consumer) consume(ctx context.Context, exclusive bool, args amqp091.Table) error {
	err := c.channel.do(ctx, func() error { return c.start(exclusive, args) })
	if err != nil {
		return c.link.explain(c.queue, err)
	}
	return nil
}

// start is the requests of consume. Quorum queues let two exclusive consumers in, so the consumers are counted. They
// are counted first, so that no message is sent to one that is to go.
func (c *consumer) start(exclusive bool, args amqp091.Table) error {
	ch := c.channel.ch
	if err := c.others(exclusive, 0); err != nil {
		return err
	}
	if err := ch.Qos(c.prefetch, 0, false); err != nil {
		return err //nolint:wrapcheck // explained by the caller
	}
	closes := ch.NotifyClose(make(chan *amqp091.Error, 1))
	cancels := ch.NotifyCancel(make(chan string, 1))
	deliveries, err := ch.Consume(c.queue, c.tag(), false, exclusive, false, false, args)
	if err != nil {
		return err //nolint:wrapcheck // explained by the caller
	}
	c.link.work.Go(func() {
		for d := range deliveries {
			c.inbox.put(d)
		}
		c.inbox.end(c.link.explain(c.queue, ended(closes, cancels)))
	})
	return c.others(exclusive, 1)
}

// others fails where an exclusive consumer has others beside it.
func (c *consumer) others(exclusive bool, most int) error {
	q, err := c.inspect(c.channel.ch)
	if err == nil && exclusive && q.Consumers > most {
		return errHeld
	}
	return err
}

// ended is why deliveries ended.
func ended(closes <-chan *amqp091.Error, cancels <-chan string) error {
	select {
	case <-cancels:
		return errEnded
	default:
	}
	select {
	case err := <-closes:
		if err != nil {
			return err
		}
	default:
	}
	return errClosed
}

// inspect asks for the numbers of messages and consumers. It declares nothing.
func (c *consumer) inspect(ch *amqp091.Channel) (amqp091.Queue, error) {
	return ch.QueueDeclarePassive(c.queue, false, false, false, false, nil) //nolint:wrapcheck // explained by the caller
}

// tag is what the broker shows of the consumer.
func (c *consumer) tag() string {
	tag := "shardctl " + string(c.session.Key())
	return tag[:min(len(tag), maxName)]
}

// Receive returns what the broker has sent.
func (c *consumer) Receive(ctx context.Context, most int) ([]subscribe.Message, error) {
	deliveries, err := c.inbox.take(ctx, most)
	if err != nil {
		return nil, err
	}
	messages := make([]subscribe.Message, len(deliveries))
	for i := range deliveries {
		messages[i] = c.message(&deliveries[i])
		c.warnUnnamed(&deliveries[i])
	}
	return messages, nil
}

// warnUnnamed says once that a receiver cannot know messages again.
func (c *consumer) warnUnnamed(d *amqp091.Delivery) {
	if _, ok := offsetOf(d); ok || d.MessageId != "" || c.warned {
		return
	}
	c.warned = true
	c.session.Log.Info("Messages have no message-id, one that comes again has another ID", "position", c.id(d))
}

// tags are the messages' own in this channel.
func tags(messages []subscribe.Message) []uint64 {
	tags := make([]uint64, 0, len(messages))
	for _, m := range messages {
		if d, ok := m.Ref.(*amqp091.Delivery); ok {
			tags = append(tags, d.DeliveryTag)
		}
	}
	return tags
}

// failed explains an error of the channel: by what ended it, where that is known.
func (c *consumer) failed(err error) error {
	if why := c.inbox.failure(); why != nil && errors.Is(err, amqp091.ErrClosed) {
		return why
	}
	return c.link.explain(c.queue, err)
}

// DeadLetter publishes to the queue of that name.
func (c *consumer) DeadLetter(ctx context.Context, to string, m subscribe.Message, why subscribe.Why) error {
	return c.deadLetters.publish(ctx, to, m, why)
}

// Close ends the connections.
func (c *consumer) Close(ctx context.Context) error {
	return errors.Join(c.deadLetters.close(ctx), c.link.close(ctx))
}

// inbox has what the broker has sent ahead and what is not acknowledged. Its methods may be called concurrently.
type inbox struct {
	mu    sync.Mutex
	ready []amqp091.Delivery
	open  map[uint64]*entry // by delivery tag: not acknowledged
	err   error             // why nothing more comes
	wake  chan struct{}     // holds one when ready or err is new
}

// entry is a message that is not acknowledged.
type entry struct {
	at     time.Time // when it was published; zero: not known
	offset int64     // in a stream
	sent   bool      // its acknowledgement was sent, and may not be sent twice
}

func newInbox() *inbox { return &inbox{open: map[uint64]*entry{}, wake: make(chan struct{}, 1)} }

// put adds a message.
func (b *inbox) put(d amqp091.Delivery) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ready = append(b.ready, d)
	offset, _ := offsetOf(&d)
	b.open[d.DeliveryTag] = &entry{at: d.Timestamp, offset: offset}
	b.signal()
}

// end says that nothing more comes. What was not taken is dropped: it cannot be acknowledged any more.
func (b *inbox) end(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ready, b.err = nil, err
	b.signal()
}

func (b *inbox) signal() {
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

// take waits for messages and returns at most so many.
func (b *inbox) take(ctx context.Context, most int) ([]amqp091.Delivery, error) {
	for {
		if taken, err := b.now(most); len(taken) > 0 || err != nil {
			return taken, err
		}
		select {
		case <-b.wake:
		case <-ctx.Done():
			return nil, ctx.Err() //nolint:wrapcheck // the caller's own
		}
	}
}

// now is take without waiting.
func (b *inbox) now(most int) ([]amqp091.Delivery, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.err != nil {
		b.signal() // for the next call
		return nil, b.err
	}
	n := min(most, len(b.ready))
	taken := b.ready[:n:n]
	if b.ready = b.ready[n:]; len(b.ready) > 0 {
		b.signal()
	}
	return taken, nil
}

// failure is why nothing more comes; nil while something may.
func (b *inbox) failure() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.err
}

// unsent are those tags whose acknowledgement was not sent yet. They count as sent from now on.
func (b *inbox) unsent(tags []uint64) []uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	var unsent []uint64
	for _, tag := range tags {
		if e := b.open[tag]; e != nil && !e.sent {
			e.sent = true
			unsent = append(unsent, tag)
		}
	}
	return unsent
}

// acked forgets messages that are acknowledged.
func (b *inbox) acked(tags []uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, tag := range tags {
		delete(b.open, tag)
	}
}

// unacked is how many messages are not acknowledged, and the first of them.
func (b *inbox) unacked() (count int, first entry) {
	b.mu.Lock()
	defer b.mu.Unlock()
	var least uint64
	for tag, e := range b.open {
		if least == 0 || tag < least { // tags begin with 1
			least, first = tag, *e
		}
	}
	return len(b.open), first
}
