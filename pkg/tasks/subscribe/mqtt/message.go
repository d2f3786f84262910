package mqtt

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"

	"github.com/eclipse/paho.golang/paho"

	"github.com/shardctl/shardctl/pkg/tasks/subscribe"
)

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

// nobody is the broker's word for a message that it had no one to give to.
const nobody = 0x10

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
	if err == nil && answer.ReasonCode == nobody {
		err = errors.New("nobody is subscribed to it, so the broker keeps it nowhere: subscribe with a session that is kept")
	}
	if err != nil {
		return fmt.Errorf("%s: dead letter of %s to %q: %w", s.where, m.ID, to, err)
	}
	return nil
}
