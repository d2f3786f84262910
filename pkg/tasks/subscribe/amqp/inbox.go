package amqp

import (
	"context"
	"sync"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
)

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
