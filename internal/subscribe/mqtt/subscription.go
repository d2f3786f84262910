package mqtt

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"sync"

	"github.com/eclipse/paho.golang/paho"
	"github.com/eclipse/paho.golang/paho/session/state"

	"github.com/shardctl/shardctl/internal/subscribe"
	"github.com/shardctl/shardctl/internal/subscribe/internal/recall"
)

// subscription is an open subscription.
type subscription struct {
	source  Source // with variables replaced
	where   string // the broker and the topic, for errors
	conn    *conn
	client  *paho.Client
	state   *state.State
	pinger  *pinger
	session subscribe.Session
	largest int64 // bytes of a packet that the broker takes; 0: any
	inbox   *inbox
	run     string // distinguishes this connection's counted messages from those of others
	count   int    // of messages without an identifier; of Receive

	attempts *recall.Attempts // by IDs

	once  sync.Once
	ended chan struct{}
	err   error // why it ended, once ended is closed
}

// delivery is a message's Ref. Only Ack uses it.
type delivery struct {
	*paho.Publish
	sent bool // its acknowledgement was sent
}

// received takes a message from the client, and does not wait. Once the connection is closed it takes none: one that is
// taken after another was dropped would be out of order.
func (s *subscription) received(p paho.PublishReceived) (bool, error) {
	select {
	case <-s.conn.closed:
		return true, nil
	default:
	}
	if err := s.inbox.add(p.Packet); err != nil {
		s.end(err)
	}
	return true, nil
}

// drops says that messages are dropped, or with nil that none are any more.
func (s *subscription) drops(err error, messages int) {
	if err == nil {
		s.session.Log.Info("Messages were dropped, and are not any more", "messages", messages)
		s.session.Trouble(nil)
		return
	}
	err = fmt.Errorf("%s: %w", s.where, err)
	s.session.Log.Error(err, "Messages are dropped")
	s.session.Trouble(err)
}

// takenOver is why a connection ends whose session somebody else has.
func (s *subscription) takenOver() string {
	return fmt.Sprintf("another client has taken the session %q over: each task needs an mqtt.clientID of its own, "+
		"so look for another task or program that has this one", s.source.ClientID)
}

// end notes the first reason why the connection has ended.
func (s *subscription) end(err error) {
	s.once.Do(func() {
		if errors.Is(err, io.EOF) {
			// Mosquitto gives no reason to a client whose session another has taken over.
			err = errors.New("the broker has closed the connection: it stops, or " + s.takenOver())
		}
		s.err = fmt.Errorf("%s: %w", s.where, err)
		_ = s.conn.Close()
		close(s.ended)
	})
}

// Receive returns what the broker has sent.
func (s *subscription) Receive(ctx context.Context, most int) ([]subscribe.Message, error) {
	select {
	case <-s.ended:
		return nil, s.err
	default:
	}
	var taken []*paho.Publish
	for len(taken) == 0 {
		select {
		case <-s.ended:
			return nil, s.err
		case <-ctx.Done():
			return nil, ctx.Err() //nolint:wrapcheck // the caller's own
		case <-s.inbox.some:
		}
		taken = s.inbox.take(most)
	}
	messages := make([]subscribe.Message, len(taken))
	for i, p := range taken {
		messages[i] = s.message(p)
	}
	return messages, nil
}

// Cumulative is true: the protocol wants acknowledgements in the order of messages.
func (s *subscription) Cumulative() bool { return true }

// Ack acknowledges messages, in their order. The broker confirms no acknowledgement, but answers a ping behind them.
func (s *subscription) Ack(ctx context.Context, messages []subscribe.Message) error {
	if s.source.QoS == 0 {
		return nil // such messages have no acknowledgement
	}
	sent := make(chan error, 1)
	go func() { sent <- s.send(messages) }()
	var err error
	select {
	case err = <-sent:
	case <-ctx.Done():
		_ = s.conn.Close() // nothing is known of the acknowledgements
		<-sent             //nolint:errcheck // it ends now, and nothing is known of it
		return ctx.Err()   //nolint:wrapcheck // the caller's own
	}
	if err == nil {
		err = s.pinger.ask(ctx)
	}
	switch {
	case err == nil:
		s.forget(messages)
		return nil
	case ctx.Err() != nil:
		return err
	}
	select {
	case <-s.ended:
		return s.err
	default:
		return fmt.Errorf("%s: %w", s.where, err)
	}
}

// send sends acknowledgements that were not sent yet.
func (s *subscription) send(messages []subscribe.Message) error {
	for _, m := range messages {
		d, ok := m.Ref.(*delivery)
		if !ok {
			return errors.New("acknowledge a message of another source")
		}
		select {
		case <-s.conn.closed:
			return errClosed
		default:
		}
		if d.sent || d.QoS == 0 {
			continue
		}
		d.sent = true
		if err := s.state.Ack(d.Packet()); err != nil {
			return fmt.Errorf("acknowledge: %w", err)
		}
	}
	return nil
}

// Close ends the connection. The session stays, with what was not acknowledged.
func (s *subscription) Close(ctx context.Context) error {
	stop := context.AfterFunc(ctx, func() { _ = s.conn.Close() })
	defer stop()
	err := s.client.Disconnect(&paho.Disconnect{})
	closed := s.state.Close()
	s.inbox.take(math.MaxInt) // with it ends what was said of messages that are dropped
	select {
	case <-s.ended:
		return nil // there was nothing to end
	default:
	}
	s.end(errClosed)
	if err := errors.Join(err, closed); err != nil {
		return fmt.Errorf("%s: close: %w", s.where, err)
	}
	return nil
}

// idProperties are user properties that name a message, in the order in which they are looked for.
var idProperties = []string{"message-id", "id"}

func (s *subscription) message(p *paho.Publish) subscribe.Message {
	m := subscribe.Message{
		Key: []byte(p.Topic), Body: p.Payload, Headers: s.headers(p), Again: p.Duplicate(), Ref: &delivery{Publish: p},
	}
	if p.Properties != nil {
		m.Type = p.Properties.ContentType
	}
	if m.ID = named(p); m.ID == "" {
		m.ID = s.unnamed(p)
	}
	if m.Again {
		m.Delivered = s.attempts.Of(m.ID)
	}
	return m
}

// named is the ID that the publisher gave; empty: none.
func named(p *paho.Publish) string {
	if p.Properties == nil {
		return ""
	}
	for _, name := range idProperties {
		if value := p.Properties.User.Get(name); value != "" {
			return p.Topic + "/" + value
		}
	}
	return ""
}

// unnamed is an ID of the packet identifier, which is the same when the message comes again, and of a hash, since
// identifiers are used again. What has no identifier never comes again, and is counted.
func (s *subscription) unnamed(p *paho.Publish) string {
	if p.PacketID == 0 {
		s.count++
		return fmt.Sprintf("%s#%s-%d", p.Topic, s.run, s.count)
	}
	sum := sha256.New()
	_, _ = sum.Write(p.Payload) // a hash takes all
	if p.Properties != nil {
		for _, u := range p.Properties.User {
			_, _ = fmt.Fprintf(sum, "%q%q", u.Key, u.Value)
		}
	}
	return fmt.Sprintf("%s#%d-%.6x", p.Topic, p.PacketID, sum.Sum(nil))
}

// headers are the user properties, and those that a receiver may need. The topic is among them where it differs.
func (s *subscription) headers(p *paho.Publish) map[string]string {
	all := map[string]string{}
	if strings.ContainsAny(s.source.Filter, "+#") {
		all["mqtt-topic"] = p.Topic
	}
	if p.Properties != nil {
		if p.Properties.ResponseTopic != "" {
			all["response-topic"] = p.Properties.ResponseTopic
		}
		if len(p.Properties.CorrelationData) > 0 {
			all["correlation-data"] = string(p.Properties.CorrelationData)
		}
		for _, u := range p.Properties.User {
			all[u.Key] = u.Value
		}
	}
	if len(all) == 0 {
		return nil
	}
	return all
}

// overhead is more than what a packet has beside its properties, topic and payload.
const overhead = 64

// noMatchingSubscribers is the reason code of MQTT for a message that it had no one to give to.
const noMatchingSubscribers = 0x10

// DeadLetter publishes to the topic with quality of service 1, and returns once the broker has it for a subscriber.
func (s *subscription) DeadLetter(ctx context.Context, to string, m subscribe.Message, why subscribe.Why) error {
	letter := &paho.Publish{
		Topic: to, QoS: 1, Payload: m.Body, Properties: &paho.PublishProperties{ContentType: m.Type},
	}
	size := int64(len(to) + len(m.Body) + len(m.Type) + overhead)
	for _, headers := range []map[string]string{m.Headers, why.Headers()} {
		for name, value := range headers {
			letter.Properties.User.Add(name, value)
			size += int64(len(name) + len(value) + 5)
		}
	}
	if s.largest > 0 && size > s.largest {
		return fmt.Errorf("%s: dead letter of %s to %q: it has %d bytes, the broker takes %d: raise its limit",
			s.where, m.ID, to, size, s.largest)
	}
	answer, err := s.client.Publish(ctx, letter)
	if err == nil && answer.ReasonCode == noMatchingSubscribers {
		err = errors.New("it has no subscriber, so the broker keeps it nowhere: subscribe with a session that is kept")
	}
	if err != nil {
		return fmt.Errorf("%s: dead letter of %s to %q: %w", s.where, m.ID, to, err)
	}
	return nil
}
