//go:build linux

package brokers_test

import (
	"context"
	"errors"
	"sync"

	amqp "github.com/rabbitmq/amqp091-go"
)

// rabbitmqPublisher publishes to queues with confirms, over one connection that is made again when it broke.
type rabbitmqPublisher struct {
	url string

	mu      sync.Mutex
	conn    *amqp.Connection
	channel *amqp.Channel
}

func connectRabbitMQ(_ context.Context, addr string, topics []string, _ int) (publisher, error) {
	p := &rabbitmqPublisher{url: "amqp://guest:guest@" + addr + "/"}
	p.mu.Lock()
	defer p.mu.Unlock()
	err := p.connect()
	for _, topic := range topics {
		if err == nil {
			_, err = p.channel.QueueDeclare(topic, true, false, false, false, amqp.Table{"x-queue-type": "quorum"})
		}
	}
	return p, err
}

// connect makes sure that there is a channel. The caller holds the lock.
func (p *rabbitmqPublisher) connect() (err error) {
	if p.channel != nil && !p.channel.IsClosed() {
		return nil
	}
	if p.conn != nil {
		_ = p.conn.Close()
	}
	if p.conn, err = amqp.Dial(p.url); err != nil {
		return err
	}
	if p.channel, err = p.conn.Channel(); err != nil {
		return err
	}
	return p.channel.Confirm(false)
}

func (p *rabbitmqPublisher) Publish(ctx context.Context, topic string, _ int, body []byte) error {
	confirmation, err := p.send(ctx, topic, body)
	if err != nil {
		return err
	}
	confirmed, err := confirmation.WaitContext(ctx)
	if err == nil && !confirmed {
		err = errors.New("the broker did not take it, or the connection broke")
	}
	return err
}

func (p *rabbitmqPublisher) send(ctx context.Context, topic string, body []byte) (*amqp.DeferredConfirmation, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.connect(); err != nil {
		return nil, err
	}
	message := amqp.Publishing{Body: body, DeliveryMode: amqp.Persistent}
	return p.channel.PublishWithDeferredConfirmWithContext(ctx, "", topic, true, false, message)
}

func (p *rabbitmqPublisher) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.conn != nil {
		_ = p.conn.Close()
	}
}
