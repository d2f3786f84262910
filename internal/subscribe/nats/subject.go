package nats

import (
	"context"
	"fmt"

	natsio "github.com/nats-io/nats.go"

	"github.com/shardctl/shardctl/internal/subscribe"
)

// subject is a subscription of a plain subject. Nothing in it is acknowledged, and nothing comes again.
type subject struct {
	*link
	subscription *natsio.Subscription
	// They make the IDs of messages, which have none.
	client   uint64
	received uint64
}

func openSubject(ctx context.Context, l *link, on string) (*subject, error) {
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	subscription, err := l.SubscribeSync(on)
	if err != nil {
		return nil, err
	}
	// Messages can be received once the server has heard of it.
	if err := l.FlushWithContext(ctx); err != nil {
		return nil, err
	}
	client, err := l.GetClientID()
	return &subject{link: l, subscription: subscription, client: client}, err
}

// Receive waits for one message.
func (s *subject) Receive(ctx context.Context, _ int) ([]subscribe.Message, error) {
	msg, err := s.subscription.NextMsgWithContext(ctx)
	if err != nil {
		return nil, s.explainIn(ctx, err)
	}
	m := messageOf(msg.Subject, msg.Header, msg.Data)
	s.received++
	m.ID = fmt.Sprintf("%s/%d-%d-%d", msg.Subject, s.session.Token, s.client, s.received)
	return []subscribe.Message{m}, nil
}

// Ack does nothing: the server keeps nothing.
func (s *subject) Ack(context.Context, []subscribe.Message) error { return nil }

// Cumulative is false: there is nothing to acknowledge.
func (s *subject) Cumulative() bool { return false }

// DeadLetter publishes to a subject, and returns once the server has the message. No one may be subscribed.
func (s *subject) DeadLetter(ctx context.Context, to string, m subscribe.Message, why subscribe.Why) error {
	within, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	err := s.PublishMsg(letter(to, m, why.Headers()))
	if err == nil {
		err = s.FlushWithContext(within)
	}
	if err != nil {
		return fmt.Errorf("dead letter to subject %s: %w", to, s.explainIn(ctx, err))
	}
	return nil
}

// Close ends the subscription.
func (s *subject) Close(context.Context) error {
	s.Conn.Close()
	return nil
}
