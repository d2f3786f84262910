package amqp

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/shardctl/shardctl/internal/connect"
)

// address is a broker and how to reach it.
type address struct {
	url    string // with the password: never shown
	broker string // HOST:PORT, for errors
	vhost  string
	login  []amqp091.Authentication // nil: as the URL says
	tls    *tls.Config              // nil: as the URL says
}

var (
	errURL = errors.New("is not the URL of a broker, must be amqp://USER:PASSWORD@HOST:PORT/VHOST or amqps://…, with " +
		"%XX for special characters")
	errHeartbeat = errors.New("turns heartbeats off, by which a broker that hangs is noticed: leave heartbeat out, or " +
		"set heartbeat=SECONDS")
)

// parseURL reads a URL. Its errors do not quote it, as it may hold a password.
func parseURL(text string) (amqp091.URI, error) {
	uri, err := amqp091.ParseURI(text)
	if err != nil {
		return uri, errURL
	}
	u, err := url.Parse(text)
	if err != nil {
		return uri, errURL
	}
	if every := u.Query().Get("heartbeat"); every != "" {
		if seconds, err := strconv.Atoi(every); err != nil || seconds <= 0 {
			return uri, errHeartbeat
		}
	}
	return uri, nil
}

// address reads the source's own fields, with variables replaced.
func (s Source) address() (address, error) {
	uri, err := parseURL(s.URL)
	if err != nil {
		return address{}, fmt.Errorf("amqp.url: %w", err)
	}
	a := address{url: s.URL, broker: net.JoinHostPort(uri.Host, strconv.Itoa(uri.Port)), vhost: uri.Vhost}
	if a.login, err = authentication(s.Login, uri); err != nil || s.TLS == (connect.TLS{}) {
		return a, err
	}
	if uri.Scheme != "amqps" {
		return a, errors.New("amqp.tls: is set, but amqp.url is not amqps://: write amqps://, or leave tls out")
	}
	a.tls, err = s.TLS.Config(Name)
	return a, err
}

// authentication is nil where the URL's is to be used.
func authentication(l connect.Login, uri amqp091.URI) ([]amqp091.Authentication, error) {
	if l == (connect.Login{}) {
		return nil, nil
	}
	password, err := l.ReadPassword(Name)
	if err != nil {
		return nil, err
	}
	plain := uri.PlainAuth()
	plain.Username, plain.Password = cmp.Or(l.User, plain.Username), cmp.Or(password, plain.Password)
	return []amqp091.Authentication{plain}, nil
}

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

// channel is a channel of a connection. It carries one request at a time: the client would mix up the answers to two.
type channel struct {
	link *link
	ch   *amqp091.Channel
	busy chan struct{}
}

// channel opens a channel.
func (l *link) channel(ctx context.Context) (*channel, error) {
	a := &channel{link: l, busy: make(chan struct{}, 1)}
	return a, a.do(ctx, func() (err error) {
		a.ch, err = l.conn.Channel()
		return err //nolint:wrapcheck // explained by the caller, who knows what it was for
	})
}

// do has f send a request, and waits for its answer, or for ctx. In the latter case f goes on, and the channel stays
// busy until the answer comes or the connection ends.
func (a *channel) do(ctx context.Context, f func() error) error {
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

// explain says of an error which broker it is about, which queue if any, and what to do.
func (a address) explain(queue string, err error) error {
	where := "amqp broker " + a.broker
	if queue != "" {
		where += fmt.Sprintf(", queue %q", queue)
	}
	if advice := a.advice(err); advice != "" {
		return fmt.Errorf("%s: %s: %w", where, advice, err)
	}
	return fmt.Errorf("%s: %w", where, err)
}

// advice is what an error means and what to do; empty where the error itself says enough.
func (a address) advice(err error) string {
	var refused *amqp091.Error
	var unreachable *net.OpError
	switch {
	case errors.As(err, &refused):
		return a.meaning(refused)
	case errors.As(err, &unreachable):
		return "cannot be reached: check that it runs and that amqp.url names it"
	case errors.Is(err, errSilent):
		return "is connected and does not answer: check whether it hangs, and the network to it"
	}
	return ""
}

// meaning is advice for an error of the protocol. The texts are RabbitMQ's.
func (a address) meaning(err *amqp091.Error) string {
	has := func(text string) bool { return strings.Contains(err.Reason, text) }
	switch {
	case err.Code == amqp091.AccessRefused && has("in exclusive use"), err == errHeld:
		return "another consumer holds the queue: stop it, or wait until the broker has dropped its connection"
	case err.Code == amqp091.AccessRefused && (has("username or password") || has("Login was refused")):
		return "refuses the user or password of amqp.url"
	case err.Code == amqp091.AccessRefused:
		return fmt.Sprintf("the user of amqp.url lacks a permission in virtual host %q: it needs read, and write to the "+
			"default exchange for dead letters", a.vhost)
	case err.Code == amqp091.NotAllowed:
		return fmt.Sprintf("refuses virtual host %q: check the path of amqp.url and the user's permissions", a.vhost)
	case err.Code == amqp091.NotFound && has("no queue"):
		return fmt.Sprintf("there is no such queue in virtual host %q: declare it, or correct the name", a.vhost)
	case err.Code == amqp091.NotFound:
		return "the node that keeps the queue is not ready: wait for it, or start it"
	case err.Code == amqp091.ResourceLocked:
		return "the queue is exclusive to another connection: declare it without exclusive"
	case err.Code == amqp091.PreconditionFailed && has("invalid arg 'x-stream-offset'"):
		return "the queue is not a stream: leave amqp.stream out"
	case err.Code == amqp091.PreconditionFailed && has("rabbit_stream_queue"):
		return "the queue is a stream: set amqp.stream"
	case err.Code == amqp091.PreconditionFailed && has("timed out"):
		return "a message was worked on for longer than the broker's consumer_timeout: raise it, or lower prefetch"
	case err.Code == amqp091.PreconditionFailed && has("larger than"), err.Code == amqp091.ContentTooLarge:
		return "the message is larger than the broker allows: raise its max_message_size"
	case err.Code == amqp091.ConnectionForced:
		return "the broker, or its operator, has closed the connection"
	}
	return ""
}

var (
	// errHeld has the code that the broker gives for queues of which it checks it.
	errHeld   = &amqp091.Error{Code: amqp091.AccessRefused, Reason: "the queue has another consumer"}
	errClosed = errors.New("the connection is closed")
	errEnded  = errors.New("the broker has ended the subscription: the queue was deleted, or its node has gone down")
)
