package nats_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	natsio "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/shardctl/shardctl/internal/testbroker"
	"github.com/shardctl/shardctl/pkg/tasks/subscribe"
	"github.com/shardctl/shardctl/pkg/tasks/subscribe/internal/sourcetest"
	"github.com/shardctl/shardctl/pkg/tasks/subscribe/nats"
)

// rig is a name on a server, and a client of it.
type rig struct {
	*sourcetest.Task

	broker *testbroker.Broker
	conn   *natsio.Conn
	js     jetstream.JetStream
	name   string // of the stream, and first word of its subjects
	source nats.Source
}

func newRig(t *testing.T) *rig {
	t.Helper()
	return rigAt(t, testbroker.Shared(t, testbroker.KindNATS))
}

func rigAt(t *testing.T, b *testbroker.Broker, opts ...natsio.Option) *rig {
	t.Helper()
	opts = append(opts, natsio.MaxReconnects(-1), natsio.ReconnectWait(100*time.Millisecond))
	conn, err := natsio.Connect(b.Addr, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	js, err := jetstream.New(conn)
	if err != nil {
		t.Fatal(err)
	}
	name := testbroker.Name()
	return &rig{
		Task: sourcetest.Named(t, "shop", "orders"), broker: b, conn: conn, js: js, name: name,
		source: nats.Source{Servers: []string{b.Addr}, Stream: name},
	}
}

func (r *rig) within() context.Context { r.T.Helper(); return sourcetest.Context(r.T) }

// stream makes the stream.
func (r *rig) stream(config jetstream.StreamConfig) {
	r.T.Helper()
	config.Name = r.name
	if config.Subjects == nil {
		config.Subjects = []string{r.name + ".>"}
	}
	if _, err := r.js.CreateStream(r.within(), config); err != nil {
		r.T.Fatal(err)
	}
}

func (r *rig) streamNamed(name, subject string) {
	r.T.Helper()
	_, err := r.js.CreateStream(r.within(), jetstream.StreamConfig{Name: name, Subjects: []string{subject}})
	if err != nil {
		r.T.Fatal(err)
	}
}

// add publishes bodies to the subject NAME.word.
func (r *rig) add(word string, bodies ...string) {
	r.T.Helper()
	for _, body := range bodies {
		if _, err := r.js.Publish(r.within(), r.name+"."+word, []byte(body)); err != nil {
			r.T.Fatal(err)
		}
	}
}

// readStream waits for the first n messages of a stream.
func (r *rig) readStream(t *testing.T, stream string, n int) []subscribe.Message {
	t.Helper()
	consumer, err := r.js.CreateConsumer(r.within(), stream, jetstream.ConsumerConfig{})
	if err != nil {
		t.Error(err)
		return nil
	}
	var all []subscribe.Message
	for len(all) < n {
		msg, err := consumer.Next(jetstream.FetchMaxWait(sourcetest.Patience))
		if err != nil {
			t.Error(err)
			return all
		}
		all = append(all, messageIn(msg.Headers(), msg.Data()))
	}
	return all
}

func messageFor(subject string, m subscribe.Message) *natsio.Msg {
	msg := natsio.NewMsg(subject)
	msg.Data = m.Body
	if m.Type != "" {
		msg.Header.Set("Content-Type", m.Type)
	}
	for name, value := range m.Headers {
		msg.Header[name] = []string{value}
	}
	return msg
}

func messageIn(header natsio.Header, body []byte) subscribe.Message {
	m := subscribe.Message{Body: body, Headers: map[string]string{}}
	for name, values := range header {
		if name == "Content-Type" {
			m.Type = values[0]
		} else {
			m.Headers[name] = values[0]
		}
	}
	return m
}

func (r *rig) open(token int64) *sourcetest.Client { r.T.Helper(); return r.Open(r.source, token) }

func (r *rig) refused(token int64) error { r.T.Helper(); return r.Refused(r.source, token) }

// consumers are the names of the stream's consumers.
func (r *rig) consumers() []string {
	r.T.Helper()
	stream, err := r.js.Stream(r.within(), r.name)
	if err != nil {
		r.T.Fatal(err)
	}
	names := stream.ConsumerNames(r.within())
	var all []string
	for name := range names.Name() {
		all = append(all, name)
	}
	if names.Err() != nil {
		r.T.Fatal(names.Err())
	}
	return all
}

// waitGone waits until the server has noticed that no one asks for messages any more.
func (r *rig) waitGone() {
	r.T.Helper()
	sourcetest.Eventually(r.T, "that no one asks for messages", func() bool {
		consumer, err := r.js.Consumer(r.within(), r.name, r.consumers()[0])
		if err != nil {
			r.T.Fatal(err)
		}
		return consumer.CachedInfo().NumWaiting == 0
	})
}

// numbers are texts from 1 to n.
func numbers(n int) []string {
	var all []string
	for i := range n {
		all = append(all, fmt.Sprint(i+1))
	}
	return all
}
