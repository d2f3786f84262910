//go:build linux

package brokers_test

import (
	"context"
	"errors"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/eclipse/paho.golang/paho"
	natsio "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/redis/go-redis/v9"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// kafkaPublisher produces with idempotence, so that what the client repeats is one message.
type kafkaPublisher struct{ client *kgo.Client }

func connectKafka(ctx context.Context, addr string, topics []string, partitions int) (publisher, error) {
	client, err := kgo.NewClient(
		kgo.SeedBrokers(addr), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerLinger(0),
		kgo.MetadataMinAge(100*time.Millisecond),
		kgo.RetryBackoffFn(func(int) time.Duration { return 100 * time.Millisecond }),
	)
	if err != nil {
		return nil, err
	}
	made, err := kadm.NewClient(client).CreateTopics(ctx, int32(max(1, partitions)), 1, nil, topics...)
	errs := []error{err}
	for _, topic := range made {
		errs = append(errs, topic.Err)
	}
	if err := errors.Join(errs...); err != nil {
		client.Close()
		return nil, err
	}
	return kafkaPublisher{client}, nil
}

func (p kafkaPublisher) Publish(ctx context.Context, to lane, body []byte) error {
	record := &kgo.Record{Topic: to.topic, Partition: int32(to.partition), Value: body}
	if to.key != "" {
		record.Key = []byte(to.key)
	}
	return p.client.ProduceSync(ctx, record).FirstErr()
}

func (p kafkaPublisher) Close() { p.client.Close() }

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

// mqttTimeout is for one message: a broker that was restarted confirms nothing of an earlier connection.
const mqttTimeout = 5 * time.Second

// mqttPublisher publishes with QoS 1, over one connection that is made again after an error.
type mqttPublisher struct {
	addr string

	mu     sync.Mutex
	client *paho.Client // nil: to be made
}

// connectMQTT makes no topics: a topic is there for all who subscribe to it.
func connectMQTT(ctx context.Context, addr string, _ []string, _ int) (publisher, error) {
	p := &mqttPublisher{addr: addr}
	_, err := p.connected(ctx)
	return p, err
}

func (p *mqttPublisher) connected(ctx context.Context) (*paho.Client, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.client != nil {
		return p.client, nil
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", p.addr)
	if err != nil {
		return nil, err
	}
	client := paho.NewClient(paho.ClientConfig{Conn: conn})
	if _, err := client.Connect(ctx, &paho.Connect{ClientID: "sender", KeepAlive: 30, CleanStart: true}); err != nil {
		_ = conn.Close()
		return nil, err
	}
	p.client = client
	return client, nil
}

func (p *mqttPublisher) Publish(ctx context.Context, to lane, body []byte) error {
	ctx, cancel := context.WithTimeout(ctx, mqttTimeout)
	defer cancel()
	client, err := p.connected(ctx)
	if err != nil {
		return err
	}
	stop := make(chan struct{})
	defer close(stop)
	go func() {
		select {
		case <-client.Done(): // the connection broke: nothing will be confirmed on it
			cancel()
		case <-stop:
		}
	}()
	_, err = client.Publish(ctx, &paho.Publish{Topic: to.topic, QoS: 1, Payload: body})
	if err != nil {
		p.broken(client)
	}
	return err
}

// broken has a new connection made for the next message.
func (p *mqttPublisher) broken(client *paho.Client) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.client == client {
		p.client = nil
		_ = client.Disconnect(&paho.Disconnect{}) // it may be gone already
	}
}

func (p *mqttPublisher) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.client != nil {
		_ = p.client.Disconnect(&paho.Disconnect{})
	}
}

// redisPublisher appends to streams, and repeats nothing.
type redisPublisher struct{ client *redis.Client }

func connectRedis(ctx context.Context, addr string, topics []string, _ int) (publisher, error) {
	client := redis.NewClient(&redis.Options{Addr: addr, MaxRetries: -1, ContextTimeoutEnabled: true})
	var errs []error
	for _, topic := range topics { // a group makes the stream, which stays when the group goes
		errs = append(errs, client.XGroupCreateMkStream(ctx, topic, "first", "$").Err(),
			client.XGroupDestroy(ctx, topic, "first").Err())
	}
	return redisPublisher{client}, errors.Join(errs...)
}

func (p redisPublisher) Publish(ctx context.Context, to lane, body []byte) error {
	values := []any{"body", body}
	if to.key != "" {
		values = append(values, "key", to.key)
	}
	return p.client.XAdd(ctx, &redis.XAddArgs{Stream: to.topic, Values: values}).Err()
}

func (p redisPublisher) Close() { _ = p.client.Close() }

// natsPublisher publishes to streams, each with the subject of its name.
type natsPublisher struct {
	conn *natsio.Conn
	js   jetstream.JetStream
}

func dialNATS(addr string) (*natsio.Conn, error) {
	return natsio.Connect(addr, natsio.MaxReconnects(-1), natsio.ReconnectWait(100*time.Millisecond),
		natsio.ReconnectBufSize(-1)) // what cannot be sent fails
}

func connectNATS(ctx context.Context, addr string, topics []string, _ int) (publisher, error) {
	conn, err := dialNATS(addr)
	if err != nil {
		return nil, err
	}
	js, err := jetstream.New(conn)
	if err != nil {
		return nil, err
	}
	var errs []error
	for _, topic := range topics {
		_, err := js.CreateStream(ctx, jetstream.StreamConfig{Name: topic, Subjects: []string{topic}})
		errs = append(errs, err)
	}
	return natsPublisher{conn, js}, errors.Join(errs...)
}

// confirmWithin is how long a confirmation may take. One that was on its way when the server ended never comes.
const confirmWithin = 2 * time.Second

func (p natsPublisher) Publish(ctx context.Context, to lane, body []byte) error {
	ctx, cancel := context.WithTimeout(ctx, confirmWithin)
	defer cancel()
	_, err := p.js.Publish(ctx, to.topic, body, jetstream.WithRetryAttempts(0))
	return err
}

func (p natsPublisher) Close() { p.conn.Close() }

// subjectPublisher publishes to plain subjects. A message counts as confirmed once the server has it.
type subjectPublisher struct{ conn *natsio.Conn }

func connectSubjects(_ context.Context, addr string, _ []string, _ int) (publisher, error) {
	conn, err := dialNATS(addr)
	return subjectPublisher{conn}, err
}

func (p subjectPublisher) Publish(ctx context.Context, to lane, body []byte) error {
	ctx, cancel := context.WithTimeout(ctx, confirmWithin)
	defer cancel()
	if err := p.conn.Publish(to.topic, body); err != nil {
		return err
	}
	return p.conn.FlushWithContext(ctx)
}

func (p subjectPublisher) Close() { p.conn.Close() }
