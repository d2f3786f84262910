package memsource

import (
	"cmp"
	"context"
	"fmt"

	"github.com/shardctl/shardctl/internal/decode"
	"github.com/shardctl/shardctl/internal/field"
	"github.com/shardctl/shardctl/internal/subscribe"
)

// Name is the field of a task that chooses this kind.
const Name = "mem"

// Kind reads sources of a broker from a configuration.
func Kind(b *Broker) subscribe.SourceKind {
	return subscribe.SourceKind{
		Field: Name,
		Form: func() string {
			return new(Source).fields().Schema("Receives the messages of a topic in memory. Of tests only.")
		},
		Read: func(n *decode.Node, r *decode.Reader) subscribe.Source {
			s := Source{Broker: b}
			s.fields().Parse(n, r)
			return s
		},
	}
}

// Source subscribes to a topic of a broker in memory.
type Source struct {
	Broker   *Broker
	Name     string // of the topic
	Consumer string // whose acknowledgements count; empty: the task's key
	Offsets  string // broker or store; empty: broker
	Single   bool   // each message is acknowledged by itself
	Lost     string // stop or earliest, when messages to come were truncated; empty: stop
}

// Kind is "mem".
func (Source) Kind() string { return Name }

// Topic is the name as written.
func (s Source) Topic() string { return s.Name }

// Validate checks that there is a topic, and that the position can be kept where it should be.
func (s Source) Validate() []decode.FieldError {
	wrong := s.fields().Check()
	if s.Single && s.Offsets == subscribe.Store {
		message := "cannot be true with offsets: store, which keeps one position"
		wrong = append(wrong, decode.FieldError{Path: []string{"single"}, Message: message})
	}
	return wrong
}

// Print shows the fields as they are written.
func (s Source) Print() decode.Fields { return s.fields().Print() }

func (s *Source) fields() field.List {
	return field.List{
		{Name: "topic", Value: field.Text{To: &s.Name, Required: "is required"}},
		{Name: "consumer", Value: field.Text{To: &s.Consumer}, Doc: "Whose acknowledgements count.", Unset: "the task"},
		{Name: "offsets", Value: subscribe.OffsetsField(&s.Offsets)},
		{Name: "single", Value: field.Truth{To: &s.Single}, Doc: "Each message is acknowledged by itself."},
		{Name: "lost", Value: field.Text{
			To: &s.Lost, Default: subscribe.Stop, OneOf: []string{subscribe.Stop, subscribe.Earliest},
		}},
	}
}

// Open begins where the consumer was left.
func (s Source) Open(ctx context.Context, session subscribe.Session) (subscribe.Subscription, error) {
	name, err := session.Expand(Name+".topic", s.Name)
	if err != nil {
		return nil, err
	}
	consumer, err := session.Expand(Name+".consumer", s.Consumer)
	if err != nil {
		return nil, err
	}
	sub := &Subscription{source: s, session: session, name: name, consumer: cmp.Or(consumer, string(session.Key()))}
	if err := sub.connect(ctx); err != nil {
		return nil, fmt.Errorf("subscribe to topic %s of the broker in memory: %w", name, err)
	}
	return sub, nil
}
