package nats_test

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	natsio "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/shardctl/shardctl/internal/subscribe"
	"github.com/shardctl/shardctl/internal/subscribe/nats"
	"github.com/shardctl/shardctl/internal/subscribe/subscribetest"
	"github.com/shardctl/shardctl/test/testbroker"
	"github.com/shardctl/shardctl/test/testprocess"
)

func TestMain(m *testing.M) { os.Exit(testprocess.Main(m)) }

// rig is a name on a server, and a client of it.
type rig struct {
	*subscribetest.Task

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
		Task: subscribetest.Named(t, "shop", "orders"), broker: b, conn: conn, js: js, name: name,
		source: nats.Source{Servers: []string{b.Addr}, Stream: name},
	}
}

func (r *rig) within() context.Context { r.T.Helper(); return subscribetest.Context(r.T) }

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
		msg, err := consumer.Next(jetstream.FetchMaxWait(subscribetest.Patience))
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

func (r *rig) open(token int64) *subscribetest.Client { r.T.Helper(); return r.Open(r.source, token) }

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
	subscribetest.Eventually(r.T, "that no one asks for messages", func() bool {
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

// TestSuite tries streams of each retention.
func TestSuite(t *testing.T) {
	for _, retention := range []jetstream.RetentionPolicy{
		jetstream.LimitsPolicy, jetstream.InterestPolicy, jetstream.WorkQueuePolicy,
	} {
		t.Run(retention.String(), func(t *testing.T) {
			subscribetest.Run(t, func(t *testing.T) subscribetest.Topic {
				t.Helper()
				return streamTopic(t, retention)
			})
		})
	}
}

// TestSuiteOfPlainSubjects tries what has no stream.
func TestSuiteOfPlainSubjects(t *testing.T) { subscribetest.Run(t, subjectTopic) }

func streamTopic(t *testing.T, retention jetstream.RetentionPolicy) subscribetest.Topic {
	t.Helper()
	r := newRig(t)
	link := r.broker.Link()
	config := jetstream.StreamConfig{Subjects: []string{r.name + ".>"}, Retention: retention}
	r.stream(config)
	r.streamNamed("dead-"+r.name, "dead."+r.name)
	source := nats.Source{Servers: []string{link.Addr}, Stream: r.name, Consumer: "suite"}
	interest := func() {
		t.Helper()
		if retention != jetstream.InterestPolicy {
			return
		}
		// Without anyone's interest the stream keeps nothing: this one's keeps all.
		_, err := r.js.CreateConsumer(r.within(), r.name, jetstream.ConsumerConfig{
			Durable: "other", AckPolicy: jetstream.AckExplicitPolicy,
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	interest()
	return subscribetest.Topic{
		Source: func(*testing.T) subscribe.Source { return source },
		WhenMissing: func(_ *testing.T, missing string, _ bool) subscribe.Source {
			chosen := source
			chosen.Missing = missing
			return chosen
		},
		MakeAgain: func(t *testing.T) {
			t.Helper()
			if err := r.js.DeleteStream(r.within(), r.name); err != nil {
				t.Error(err)
			}
			r.stream(config)
			interest()
		},
		DropPosition: func(t *testing.T) {
			t.Helper()
			for _, consumer := range r.consumers() {
				if consumer == "other" {
					continue
				}
				if err := r.js.DeleteConsumer(r.within(), r.name, consumer); err != nil {
					t.Error(err)
				}
			}
		},
		Publish: func(t *testing.T, messages ...subscribe.Message) {
			t.Helper()
			var futures []jetstream.PubAckFuture
			for _, m := range messages {
				f, err := r.js.PublishMsgAsync(messageFor(r.name+".x", m))
				if err != nil {
					t.Error(err)
					return
				}
				futures = append(futures, f)
			}
			for _, f := range futures {
				select {
				case <-f.Ok():
				case err := <-f.Err():
					t.Error(err)
				case <-time.After(subscribetest.Patience):
					t.Error("no confirmation")
				}
			}
		},
		Letters: "dead." + r.name,
		ReadLetters: func(t *testing.T, n int) []subscribe.Message {
			t.Helper()
			return r.readStream(t, "dead-"+r.name, n)
		},
		Cut:     func(*testing.T) { link.Cut() },
		Block:   func(*testing.T) { link.Block() },
		Unblock: func(*testing.T) { link.Unblock() },
		Traits:  subscribetest.Traits{NoKeys: true, Fenced: true, IsQueue: retention == jetstream.WorkQueuePolicy},
	}
}

func subjectTopic(t *testing.T) subscribetest.Topic {
	t.Helper()
	r := newRig(t)
	link := r.broker.Link()
	letters := make(chan *natsio.Msg, 100)
	if _, err := r.conn.ChanSubscribe("dead."+r.name, letters); err != nil {
		t.Fatal(err)
	}
	source := nats.Source{Servers: []string{link.Addr}, Subject: r.name + ".*"}
	return subscribetest.Topic{
		Source: func(*testing.T) subscribe.Source { return source },
		Publish: func(t *testing.T, messages ...subscribe.Message) {
			t.Helper()
			for _, m := range messages {
				if err := r.conn.PublishMsg(messageFor(r.name+".x", m)); err != nil {
					t.Error(err)
				}
			}
			if err := r.conn.FlushTimeout(subscribetest.Patience); err != nil {
				t.Error(err)
			}
		},
		Letters: "dead." + r.name,
		ReadLetters: func(t *testing.T, n int) []subscribe.Message {
			t.Helper()
			var all []subscribe.Message
			for len(all) < n {
				select {
				case msg := <-letters:
					all = append(all, messageIn(msg.Header, msg.Data))
				case <-time.After(subscribetest.Patience):
					return all
				}
			}
			return all
		},
		Cut:     func(*testing.T) { link.Cut() },
		Block:   func(*testing.T) { link.Block() },
		Unblock: func(*testing.T) { link.Unblock() },
		Traits:  subscribetest.Traits{NoKeys: true, Forgets: true, FromNow: true, NoLag: true},
	}
}
