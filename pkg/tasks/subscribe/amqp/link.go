package amqp

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
)

const (
	// heartbeat is offered to the broker, which may choose less. Three of them unanswered end the connection here, and
	// two at the broker, which then gives the queue to another.
	heartbeat = 5 * time.Second
	// patience is for the answer to one request. The broker's own limits, as of queues without a leader, are shorter.
	patience = 20 * time.Second
)

var errSilent = fmt.Errorf("no answer within %s", patience)

// link is a connection to a broker. Its methods may be called concurrently.
type link struct {
	address
	conn *amqp091.Connection
	raw  net.Conn
	work sync.WaitGroup // goroutines that end with the connection
}

// dial connects within ctx. The broker shows name to its operators. Who calls explains the error.
func dial(ctx context.Context, a address, name string) (*link, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, errSilent)
	defer cancel()
	l := &link{address: a}
	stop := func() bool { return true }
	properties := amqp091.NewConnectionProperties()
	properties.SetClientConnectionName(name)
	conn, err := amqp091.DialConfig(a.url, amqp091.Config{
		Heartbeat: heartbeat, SASL: a.login, TLSClientConfig: a.tls, Properties: properties,
		Dial: func(network, addr string) (_ net.Conn, err error) {
			if l.raw, err = (&net.Dialer{}).DialContext(ctx, network, addr); err != nil {
				return nil, fmt.Errorf("connect: %w", err)
			}
			raw := l.raw
			stop = context.AfterFunc(ctx, func() { _ = raw.Close() })
			return raw, nil
		},
	})
	if ended := !stop(); ended || err != nil {
		if l.raw != nil {
			_ = l.raw.Close()
		}
		if ctx.Err() != nil {
			err = because(ctx)
		}
		return nil, err //nolint:wrapcheck // explained by the caller, who knows what it was for
	}
	l.conn = conn
	return l, nil
}

// because is why a context ended, given as the context's error unless the broker is to blame.
func because(ctx context.Context) error {
	if cause := context.Cause(ctx); errors.Is(cause, errSilent) {
		return cause
	}
	return ctx.Err()
}

// abort ends the connection at once. The broker gives back what was not acknowledged.
func (l *link) abort() {
	_ = l.raw.Close()
	l.work.Wait()
}

// close ends the connection in order: once it returns nil, the broker has given back what was not acknowledged, and
// another may consume the queue.
func (l *link) close(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, errSilent)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { _ = l.raw.Close() })
	err := l.conn.Close()
	stop()
	l.abort()
	if err == nil || errors.Is(err, amqp091.ErrClosed) {
		return nil
	}
	if ctx.Err() != nil {
		err = because(ctx)
	}
	return l.explain("", fmt.Errorf("close: %w", err))
}

// lane is a channel of a connection, which carries one request at a time. The client would mix up the answers to two.
type lane struct {
	link *link
	ch   *amqp091.Channel
	busy chan struct{}
}

// lane opens a channel.
func (l *link) lane(ctx context.Context) (*lane, error) {
	a := &lane{link: l, busy: make(chan struct{}, 1)}
	return a, a.do(ctx, func() (err error) {
		a.ch, err = l.conn.Channel()
		return err //nolint:wrapcheck // explained by the caller, who knows what it was for
	})
}

// do has f send a request, and waits for its answer, or for ctx. In the latter case f goes on, and with it the lane is
// busy, until the answer comes or the connection ends.
func (a *lane) do(ctx context.Context, f func() error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, errSilent)
	defer cancel()
	select {
	case a.busy <- struct{}{}:
	case <-ctx.Done():
		return because(ctx)
	}
	done := make(chan error, 1)
	a.link.work.Go(func() {
		defer func() { <-a.busy }()
		done <- f()
	})
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return because(ctx)
	}
}
