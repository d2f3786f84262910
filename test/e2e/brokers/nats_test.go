//go:build linux

package brokers_test

import (
	"context"
	"errors"
	"time"

	natsio "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

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
