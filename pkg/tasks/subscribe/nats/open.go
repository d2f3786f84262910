package nats

import (
	"context"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/shardctl/shardctl/pkg/tasks/subscribe"
)

// Open connects and begins where the subscription was left. It creates no stream.
func (s Source) Open(ctx context.Context, session subscribe.Session) (subscribe.Subscription, error) {
	set, err := s.settings(session)
	if err != nil {
		return nil, err
	}
	topic := Source{Stream: set.stream, Subject: set.subject}.Topic()
	l, err := connect(ctx, set, topic, session)
	if err != nil {
		return nil, err
	}
	var sub subscribe.Subscription
	if set.stream == "" {
		sub, err = openSubject(ctx, l, set)
	} else {
		sub, err = openStream(ctx, l, set)
	}
	if err != nil {
		l.Close()
		return nil, l.explain(err)
	}
	return sub, nil
}

func openStream(ctx context.Context, l *link, set settings) (*durable, error) {
	ctx, cancel := context.WithTimeout(ctx, openWithin)
	defer cancel()
	js, err := jetstream.New(l.Conn)
	if err != nil {
		return nil, err
	}
	stream, err := js.Stream(ctx, set.stream)
	if err != nil {
		return nil, err
	}
	f := &family{
		stream: stream, name: set.consumer, filter: set.subject, task: string(l.session.Key()), token: l.session.Token,
		inFlight: l.session.InFlight, log: l.session.Log,
	}
	consumer, given, err := f.takeOver(ctx, set)
	if err != nil {
		return nil, err
	}
	return newDurable(l, js, f, consumer, given)
}
