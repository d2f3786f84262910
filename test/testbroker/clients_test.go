//go:build unix

package testbroker_test

import (
	"context"
	"errors"
	"net"

	"github.com/eclipse/paho.golang/paho"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/redis/go-redis/v9"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/shardctl/shardctl/test/testbroker"
)

// client is a kind's real client, which makes a connection for each call. All use one topic.
type client struct {
	// prepare makes the topic, where one has to be made, and all who read from it later.
	prepare func(ctx context.Context, addr string) error
	// write returns once the broker has confirmed the text.
	write func(ctx context.Context, addr, text string) error
	// read returns the first n texts, in order.
	read func(ctx context.Context, addr string, n int) ([]string, error)
}

var clients = map[testbroker.Kind]client{
	testbroker.KindKafka:     {kafkaPrepare, kafkaWrite, kafkaRead},
	testbroker.KindRabbitMQ:  {rabbitmqPrepare, rabbitmqWrite, rabbitmqRead},
	testbroker.KindMosquitto: {mosquittoPrepare, mosquittoWrite, mosquittoRead},
	testbroker.KindRedis:     {redisPrepare, redisWrite, redisRead},
	testbroker.KindNATS:      {natsPrepare, natsWrite, natsRead},
}

func kafkaPrepare(ctx context.Context, addr string) error {
	c, err := kgo.NewClient(kgo.SeedBrokers(addr))
	if err != nil {
		return err
	}
	defer c.Close()
	_, err = kadm.NewClient(c).CreateTopic(ctx, 1, 1, nil, "t")
	return err
}

func kafkaWrite(ctx context.Context, addr, text string) error {
	c, err := kgo.NewClient(kgo.SeedBrokers(addr), kgo.DefaultProduceTopic("t"))
	if err != nil {
		return err
	}
	defer c.Close()
	return c.ProduceSync(ctx, kgo.StringRecord(text)).FirstErr()
}

func kafkaRead(ctx context.Context, addr string, n int) (texts []string, err error) {
	c, err := kgo.NewClient(kgo.SeedBrokers(addr), kgo.ConsumeTopics("t"))
	if err != nil {
		return nil, err
	}
	defer c.Close()
	for len(texts) < n {
		fetches := c.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return texts, err
		}
		fetches.EachRecord(func(r *kgo.Record) { texts = append(texts, string(r.Value)) })
	}
	return texts[:n], nil
}

// rabbitmqDo runs f on a channel.
func rabbitmqDo(addr string, f func(ch *amqp.Channel) error) error {
	conn, err := amqp.Dial("amqp://guest:guest@" + addr + "/")
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	ch, err := conn.Channel()
	if err != nil {
		return err
	}
	return f(ch)
}

func rabbitmqPrepare(_ context.Context, addr string) error {
	return rabbitmqDo(addr, func(ch *amqp.Channel) error {
		_, err := ch.QueueDeclare("t", true, false, false, false, amqp.Table{"x-queue-type": "quorum"})
		return err
	})
}

func rabbitmqWrite(ctx context.Context, addr, text string) error {
	return rabbitmqDo(addr, func(ch *amqp.Channel) error {
		if err := ch.Confirm(false); err != nil {
			return err
		}
		message := amqp.Publishing{Body: []byte(text), DeliveryMode: amqp.Persistent}
		sent, err := ch.PublishWithDeferredConfirmWithContext(ctx, "", "t", true, false, message)
		if err != nil {
			return err
		}
		ok, err := sent.WaitContext(ctx)
		if err == nil && !ok {
			err = errors.New("the node refused the message")
		}
		return err
	})
}

func rabbitmqRead(ctx context.Context, addr string, n int) (texts []string, err error) {
	err = rabbitmqDo(addr, func(ch *amqp.Channel) error {
		messages, err := ch.ConsumeWithContext(ctx, "t", "", false, false, false, false, nil)
		for err == nil && len(texts) < n {
			select {
			case m := <-messages:
				texts = append(texts, string(m.Body))
			case <-ctx.Done():
				err = ctx.Err()
			}
		}
		return err
	})
	return texts, err
}

// mosquittoDo runs f with a client whose session is kept for an hour where it has a name.
func mosquittoDo(ctx context.Context, addr, name string, f func(c *paho.Client) error,
	received ...func(paho.PublishReceived) (bool, error),
) error {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
	if err != nil {
		return err
	}
	c := paho.NewClient(paho.ClientConfig{Conn: conn, OnPublishReceived: received})
	hour := uint32(3600)
	connect := &paho.Connect{ClientID: name, KeepAlive: 30, CleanStart: name == ""}
	if name != "" {
		connect.Properties = &paho.ConnectProperties{SessionExpiryInterval: &hour}
	}
	if _, err := c.Connect(ctx, connect); err != nil {
		return err
	}
	return errors.Join(f(c), c.Disconnect(&paho.Disconnect{}))
}

func mosquittoPrepare(ctx context.Context, addr string) error {
	return mosquittoDo(ctx, addr, "reader", func(c *paho.Client) error {
		_, err := c.Subscribe(ctx, &paho.Subscribe{Subscriptions: []paho.SubscribeOptions{{Topic: "t", QoS: 1}}})
		return err
	})
}

func mosquittoWrite(ctx context.Context, addr, text string) error {
	return mosquittoDo(ctx, addr, "", func(c *paho.Client) error {
		_, err := c.Publish(ctx, &paho.Publish{Topic: "t", QoS: 1, Payload: []byte(text)})
		return err
	})
}

func mosquittoRead(ctx context.Context, addr string, n int) (texts []string, err error) {
	all := make(chan string, 100)
	receive := func(r paho.PublishReceived) (bool, error) {
		all <- string(r.Packet.Payload)
		return true, nil
	}
	err = mosquittoDo(ctx, addr, "reader", func(*paho.Client) error {
		for len(texts) < n {
			select {
			case text := <-all:
				texts = append(texts, text)
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		return nil
	}, receive)
	return texts, err
}

func redisPrepare(context.Context, string) error { return nil }

func redisWrite(ctx context.Context, addr, text string) error {
	c := redis.NewClient(&redis.Options{Addr: addr, MaxRetries: -1, ContextTimeoutEnabled: true})
	defer func() { _ = c.Close() }()
	return c.XAdd(ctx, &redis.XAddArgs{Stream: "t", Values: []string{"text", text}}).Err()
}

func redisRead(ctx context.Context, addr string, n int) (texts []string, err error) {
	c := redis.NewClient(&redis.Options{Addr: addr})
	defer func() { _ = c.Close() }()
	messages, err := c.XRangeN(ctx, "t", "-", "+", int64(n)).Result()
	for _, m := range messages {
		texts = append(texts, m.Values["text"].(string))
	}
	return texts, err
}

// natsDo runs f with JetStream.
func natsDo(addr string, f func(js jetstream.JetStream) error) error {
	conn, err := nats.Connect("nats://" + addr)
	if err != nil {
		return err
	}
	defer conn.Close()
	js, err := jetstream.New(conn)
	if err != nil {
		return err
	}
	return f(js)
}

func natsPrepare(ctx context.Context, addr string) error {
	return natsDo(addr, func(js jetstream.JetStream) error {
		_, err := js.CreateStream(ctx, jetstream.StreamConfig{Name: "T", Subjects: []string{"t"}})
		return err
	})
}

func natsWrite(ctx context.Context, addr, text string) error {
	return natsDo(addr, func(js jetstream.JetStream) error {
		_, err := js.Publish(ctx, "t", []byte(text))
		return err
	})
}

func natsRead(ctx context.Context, addr string, n int) (texts []string, err error) {
	err = natsDo(addr, func(js jetstream.JetStream) error {
		stream, err := js.Stream(ctx, "T")
		for i := 1; err == nil && i <= n; i++ {
			var m *jetstream.RawStreamMsg
			if m, err = stream.GetMsg(ctx, uint64(i)); err == nil {
				texts = append(texts, string(m.Data))
			}
		}
		return err
	})
	return texts, err
}
