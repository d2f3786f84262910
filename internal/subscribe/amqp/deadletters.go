package amqp

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/shardctl/shardctl/internal/subscribe"
)

// deadLetters publishes dead letters, one at a time, on a connection of its own. A broker short of memory or disk stops
// reading from connections that publish: acknowledgements must not wait there. It is made for the first letter. Its
// publish may be called concurrently.
type deadLetters struct {
	address
	session subscribe.Session
	sem     chan struct{}

	// Guarded by turn. pending are published and not confirmed, by queue and ID: one that is asked for again is not
	// published again. returned are those that the broker had no queue for, and why.
	pending  map[string]*amqp091.DeferredConfirmation
	returned map[string]string
	link     *link
	channel  *channel
	returns  <-chan amqp091.Return
	closes   <-chan *amqp091.Error
}

func newDeadLetters(a address, session subscribe.Session) *deadLetters {
	return &deadLetters{address: a, session: session, sem: make(chan struct{}, 1)}
}

// publish returns once the broker has the message, on disk where the queue is durable.
func (l *deadLetters) publish(ctx context.Context, to string, m subscribe.Message, why subscribe.Why) error {
	select {
	case l.sem <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err() //nolint:wrapcheck // the caller's own
	}
	defer func() { <-l.sem }()
	err := l.open(ctx)
	if err == nil {
		err = l.send(ctx, to, m, why)
	}
	if err != nil {
		return l.explain(to, fmt.Errorf("dead letter of %s: %w", m.ID, err))
	}
	return nil
}

// open connects, unless it is connected.
func (l *deadLetters) open(ctx context.Context) error {
	if l.channel != nil {
		return nil
	}
	link, err := dial(ctx, l.address, "shardctl "+string(l.session.Key())+" dead letters")
	if err != nil {
		return err
	}
	channel, err := link.channel(ctx)
	if err == nil {
		err = channel.do(ctx, func() error { return channel.ch.Confirm(false) })
	}
	if err != nil {
		link.abort()
		return err
	}
	l.link, l.channel = link, channel
	l.pending, l.returned = map[string]*amqp091.DeferredConfirmation{}, map[string]string{}
	l.returns = channel.ch.NotifyReturn(make(chan amqp091.Return, max(l.session.InFlight, 1)))
	l.closes = channel.ch.NotifyClose(make(chan *amqp091.Error, 1))
	blocks := link.conn.NotifyBlocked(make(chan amqp091.Blocking, 1))
	link.work.Go(func() { l.report(blocks) })
	return nil
}

// report says when the broker stops taking messages, until the connection ends.
func (l *deadLetters) report(blocks <-chan amqp091.Blocking) {
	blocked := false
	for b := range blocks {
		if blocked = b.Active; !blocked {
			l.session.Trouble(nil)
			continue
		}
		l.session.Trouble(l.explain("",
			fmt.Errorf("takes no messages now, a dead letter waits: %s: see to the broker's "+
				"memory and disk", b.Reason)))
	}
	if blocked {
		l.session.Trouble(nil)
	}
}

// send publishes through the default exchange, and waits for the confirmation.
func (l *deadLetters) send(ctx context.Context, to string, m subscribe.Message, why subscribe.Why) error {
	name := to + "/" + why.ID
	confirmed := l.pending[name]
	if confirmed == nil {
		err := l.channel.do(ctx, func() (err error) {
			confirmed, err = l.channel.ch.PublishWithDeferredConfirm(amqp091.DefaultExchange, to, true, false,
				letter(m, why))
			return err //nolint:wrapcheck // explained by the caller
		})
		if err != nil {
			l.drop() // nothing is known of it
			return err
		}
		l.pending[name] = confirmed
	}
	took, err := confirmed.WaitContext(ctx)
	if err != nil {
		return err //nolint:wrapcheck // the caller's own
	}
	delete(l.pending, name)
	return l.outcome(name, took)
}

// outcome is what came of a message. A queue that is not there returns it before it is confirmed.
func (l *deadLetters) outcome(name string, took bool) error {
	for len(l.returns) > 0 {
		r := <-l.returns
		id, _ := r.Headers["Shardctl-Dead-Id"].(string)
		l.returned[r.RoutingKey+"/"+id] = r.ReplyText
	}
	if text, ok := l.returned[name]; ok {
		delete(l.returned, name)
		return fmt.Errorf("the broker returned it, %s: declare the queue, or correct deadLetter", text)
	}
	if !l.channel.ch.IsClosed() {
		if !took {
			return errors.New("the broker refused it: the queue is full, or a policy forbids it")
		}
		return nil
	}
	defer l.drop()
	select {
	case err := <-l.closes:
		if err != nil {
			return err
		}
	default:
	}
	return errClosed
}

// drop ends the connection; the next letter makes another.
func (l *deadLetters) drop() {
	if l.link != nil {
		l.link.abort()
	}
	l.link, l.channel = nil, nil
}

// close ends the connection: in order, unless the broker may not be reading from it.
func (l *deadLetters) close(ctx context.Context) error {
	if l.link == nil || len(l.pending) > 0 {
		l.drop()
		return nil
	}
	return l.link.close(ctx)
}

// deadKey is the header of a dead letter that holds the message's key, if it has one.
const deadKey = "Shardctl-Dead-Key"

// letter is the message as it was published, and why it is dead. What would have it expire, or copied to other queues,
// is left out. So is the user who published it: the broker takes no other than the connection's.
func letter(m subscribe.Message, why subscribe.Why) amqp091.Publishing {
	p := amqp091.Publishing{
		ContentType: m.Type, DeliveryMode: amqp091.Persistent, Timestamp: time.Now(), Body: m.Body,
	}
	table := amqp091.Table{}
	if d, ok := m.Ref.(*amqp091.Delivery); ok {
		p.ContentEncoding, p.CorrelationId, p.ReplyTo = d.ContentEncoding, d.CorrelationId, d.ReplyTo
		p.MessageId, p.Type, p.AppId, p.Priority = d.MessageId, d.Type, d.AppId, d.Priority
		if !d.Timestamp.IsZero() {
			p.Timestamp = d.Timestamp
		}
		maps.Copy(table, d.Headers)
	}
	for _, name := range []string{offsetHeader, countHeader, "CC", "BCC"} {
		delete(table, name)
	}
	for name, value := range why.Headers() {
		table[name] = value
	}
	if m.Key != nil {
		table[deadKey] = string(m.Key) // the routing key is now the queue
	}
	p.Headers = table
	return p
}
