//go:build linux

package brokers_test

import (
	"context"
	"errors"
	"strconv"
	"sync"

	amqp "github.com/rabbitmq/amqp091-go"
)

// rabbitmqPublisher publishes to queues with confirms, over one connection that is made again when it broke.
type rabbitmqPublisher struct {
	url string

	mu      sync.Mutex
	conn    *amqp.Connection
	channel *amqp.Channel
	returns <-chan amqp.Return
	// returned are messages that no queue took, and why, by their IDs. The broker confirms them as well.
	returned map[string]string
	last     int // ID
}

// connectRabbitMQ makes queues of a type.
func connectRabbitMQ(queues string) func(context.Context, string, []string, int) (publisher, error) {
	return func(_ context.Context, addr string, topics []string, _ int) (publisher, error) {
		p := &rabbitmqPublisher{url: "amqp://guest:guest@" + addr + "/", returned: map[string]string{}}
		p.mu.Lock()
		defer p.mu.Unlock()
		err := p.connect()
		for _, topic := range topics {
			if err == nil {
				_, err = p.channel.QueueDeclare(topic, true, false, false, false, amqp.Table{"x-queue-type": queues})
			}
		}
		return p, err
	}
}

// connect makes sure that there is a channel. The caller holds the lock.
func (p *rabbitmqPublisher) connect() (err error) {
	if p.channel != nil && !p.channel.IsClosed() {
		return nil
	}
	p.collect()
	if p.conn != nil {
		_ = p.conn.Close()
	}
	if p.conn, err = amqp.Dial(p.url); err != nil {
		return err
	}
	if p.channel, err = p.conn.Channel(); err != nil {
		return err
	}
	p.returns = p.channel.NotifyReturn(make(chan amqp.Return, senders)) // each has one under way
	return p.channel.Confirm(false)
}

func (p *rabbitmqPublisher) Publish(ctx context.Context, to lane, body []byte) error {
	id, confirmation, err := p.send(ctx, to.topic, body)
	if err != nil {
		return err
	}
	confirmed, err := confirmation.WaitContext(ctx)
	if err == nil && !confirmed {
		err = errors.New("the broker did not take it, or the connection broke")
	}
	return errors.Join(err, p.refusal(id))
}

func (p *rabbitmqPublisher) send(
	ctx context.Context, topic string, body []byte,
) (id string, confirmation *amqp.DeferredConfirmation, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.connect(); err != nil {
		return "", nil, err
	}
	p.last++
	message := amqp.Publishing{MessageId: strconv.Itoa(p.last), Body: body, DeliveryMode: amqp.Persistent}
	confirmation, err = p.channel.PublishWithDeferredConfirmWithContext(ctx, "", topic, true, false, message)
	return message.MessageId, confirmation, err
}

// refusal is why no queue took a message that has been confirmed; nil: one did. A node that has just started may have
// no route to its queues.
func (p *rabbitmqPublisher) refusal(id string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.collect()
	text, ok := p.returned[id]
	if !ok {
		return nil
	}
	delete(p.returned, id)
	return errors.New("the broker returned it: " + text)
}

// collect takes what the channel has returned. The caller holds the lock.
func (p *rabbitmqPublisher) collect() {
	for len(p.returns) > 0 {
		r := <-p.returns
		p.returned[r.MessageId] = r.ReplyText
	}
}

func (p *rabbitmqPublisher) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.conn != nil {
		_ = p.conn.Close()
	}
}
