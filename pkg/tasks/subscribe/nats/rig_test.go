package nats_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	natsio "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/shardctl/shardctl/internal/testbroker"
	"github.com/shardctl/shardctl/pkg/tasks"
	"github.com/shardctl/shardctl/pkg/tasks/subscribe"
	"github.com/shardctl/shardctl/pkg/tasks/subscribe/nats"
)

// limit is how long anything may take.
const limit = 30 * time.Second

// rig is a name on a server, and a client of it.
type rig struct {
	t      *testing.T
	broker *testbroker.Broker
	conn   *natsio.Conn
	js     jetstream.JetStream
	name   string // of the stream, and first word of its subjects
	source nats.Source
	lines  *lines
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
		t: t, broker: b, conn: conn, js: js, name: name, lines: &lines{},
		source: nats.Source{Servers: []string{b.Addr}, Stream: name},
	}
}

func (r *rig) within() context.Context {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), limit)
	r.t.Cleanup(cancel)
	return ctx
}

// stream makes the stream.
func (r *rig) stream(config jetstream.StreamConfig) {
	r.t.Helper()
	config.Name = r.name
	if config.Subjects == nil {
		config.Subjects = []string{r.name + ".>"}
	}
	if _, err := r.js.CreateStream(r.within(), config); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) streamNamed(name, subject string) {
	r.t.Helper()
	_, err := r.js.CreateStream(r.within(), jetstream.StreamConfig{Name: name, Subjects: []string{subject}})
	if err != nil {
		r.t.Fatal(err)
	}
}

// add publishes bodies to the subject NAME.word.
func (r *rig) add(word string, bodies ...string) {
	r.t.Helper()
	for _, body := range bodies {
		if _, err := r.js.Publish(r.within(), r.name+"."+word, []byte(body)); err != nil {
			r.t.Fatal(err)
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
		msg, err := consumer.Next(jetstream.FetchMaxWait(limit))
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

func (r *rig) session(name string, token int64) subscribe.Session {
	return subscribe.Session{
		Identity: tasks.Identity{Group: "shop", Name: name}, Token: token, InFlight: 10,
		Expand:  func(_, text string) (string, error) { return text, nil },
		Trouble: func(error) {}, Log: r.lines.logger(),
	}
}

// open opens the subscription of task orders with a token. It is closed with the test, unless close was called.
func (r *rig) open(token int64) *subscription {
	r.t.Helper()
	sub, err := r.source.Open(r.within(), r.session("orders", token))
	if err != nil {
		r.t.Fatal(err)
	}
	s := &subscription{Subscription: sub, r: r}
	r.t.Cleanup(s.close)
	return s
}

// refused is the error of an Open that must fail.
func (r *rig) refused(token int64) error {
	r.t.Helper()
	sub, err := r.source.Open(r.within(), r.session("orders", token))
	if err == nil {
		_ = sub.Close(r.within())
		r.t.Fatal("opened")
	}
	return err
}

// consumers are the names of the stream's consumers.
func (r *rig) consumers() []string {
	r.t.Helper()
	stream, err := r.js.Stream(r.within(), r.name)
	if err != nil {
		r.t.Fatal(err)
	}
	names := stream.ConsumerNames(r.within())
	var all []string
	for name := range names.Name() {
		all = append(all, name)
	}
	if names.Err() != nil {
		r.t.Fatal(names.Err())
	}
	return all
}

// waitGone waits until the server has noticed that no one asks for messages any more.
func (r *rig) waitGone() {
	r.t.Helper()
	for {
		consumer, err := r.js.Consumer(r.within(), r.name, r.consumers()[0])
		if err != nil {
			r.t.Fatal(err)
		}
		if consumer.CachedInfo().NumWaiting == 0 {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
}

type subscription struct {
	subscribe.Subscription
	r    *rig
	once sync.Once
}

func (s *subscription) close() {
	s.once.Do(func() {
		if err := s.Close(context.Background()); err != nil {
			s.r.t.Error(err)
		}
	})
}

// read receives n messages.
func (s *subscription) read(n int) []subscribe.Message {
	s.r.t.Helper()
	var all []subscribe.Message
	for len(all) < n {
		some, err := s.Receive(s.r.within(), n-len(all))
		if err != nil {
			s.r.t.Fatalf("after %d messages: %v", len(all), err)
		}
		all = append(all, some...)
	}
	return all
}

func (s *subscription) ack(messages []subscribe.Message) {
	s.r.t.Helper()
	if err := s.Ack(s.r.within(), messages); err != nil {
		s.r.t.Fatal(err)
	}
}

func (s *subscription) lag() subscribe.Lag {
	s.r.t.Helper()
	lag, err := s.Subscription.(subscribe.Lagging).Lag(s.r.within())
	if err != nil {
		s.r.t.Fatal(err)
	}
	return lag
}

func bodies(messages []subscribe.Message) string {
	all := make([]string, len(messages))
	for i, m := range messages {
		all[i] = string(m.Body)
	}
	return strings.Join(all, " ")
}

// numbers are texts from 1 to n.
func numbers(n int) []string {
	var all []string
	for i := range n {
		all = append(all, fmt.Sprint(i+1))
	}
	return all
}

// lines are what was logged.
type lines struct {
	mu  sync.Mutex
	all []string
}

func (l *lines) logger() logr.Logger {
	return funcr.New(func(_, args string) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.all = append(l.all, args)
	}, funcr.Options{})
}

// take gives what was logged since the last call.
func (l *lines) take() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := strings.Join(l.all, "\n")
	l.all = slices.Delete(l.all, 0, len(l.all))
	return all
}

// wants checks that an error has all parts.
func wants(t *testing.T, err error, parts ...string) {
	t.Helper()
	if err == nil {
		t.Errorf("no error, want one with %q", parts)
		return
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("error %q, want it to have %q", err, part)
		}
	}
}
