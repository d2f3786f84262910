package mqtt

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/eclipse/paho.golang/paho"
	"github.com/eclipse/paho.golang/paho/session/state"

	"github.com/shardctl/shardctl/pkg/tasks/subscribe"
	"github.com/shardctl/shardctl/pkg/tasks/subscribe/internal/attempts"
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
	inbox   chan *paho.Publish
	run     string // distinguishes this connection's counted messages from those of others
	count   int    // of messages without an identifier; of Receive

	attempts *attempts.Kept // by IDs

	once  sync.Once
	ended chan struct{}
	err   error // why it ended, once ended is closed
}

// delivery is a message's Ref. Only Ack uses it.
type delivery struct {
	*paho.Publish
	sent bool // its acknowledgement was sent
}

// received takes a message from the client. While no more may be in flight it waits, and with it the broker. Once the
// connection is closed it takes none: one that is taken after another was dropped would be out of order.
func (s *subscription) received(p paho.PublishReceived) (bool, error) {
	select {
	case <-s.conn.closed:
		return true, nil
	default:
	}
	select {
	case s.inbox <- p.Packet:
	case <-s.conn.closed:
	}
	return true, nil
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
	var messages []subscribe.Message
	select {
	case <-s.ended:
		return nil, s.err
	case <-ctx.Done():
		return nil, ctx.Err() //nolint:wrapcheck // the caller's own
	case p := <-s.inbox:
		messages = append(messages, s.message(p))
	}
	for len(messages) < most {
		select {
		case p := <-s.inbox:
			messages = append(messages, s.message(p))
		default:
			return messages, nil
		}
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
