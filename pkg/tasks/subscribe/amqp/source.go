package amqp

import (
	"cmp"
	"context"
	"fmt"

	"github.com/shardctl/shardctl/pkg/tasks/internal/access"
	"github.com/shardctl/shardctl/pkg/tasks/subscribe"
)

// Name is the field of a task that chooses this source.
const Name = "amqp"

// What fields are when left out.
const (
	DefaultStart   = "earliest"
	DefaultMissing = "stop"
)

const (
	maxName         = 255   // bytes of a short string of the protocol: names, keys, tags
	maxPrefetch     = 65535 // 16 bits of basic.qos
	streamsPrefetch = 100   // at least: nothing comes again because of it, and one at a time is slow
)

// Source subscribes to a queue or a stream. Fields are as written: $(NAME) in them is replaced at each Open.
type Source struct {
	URL       string // amqp:// or amqps://, with host, port and virtual host, perhaps with user and password
	Login     Login  // in place of the URL's
	Queue     string
	Prefetch  int     // most messages sent ahead of their acknowledgements; 0: as many as may be in flight
	KeyHeader string  // the header that holds a message's key; empty: the routing key
	Stream    *Stream // nil: the queue is none
	TLS       TLS
}

// Stream says where the reading of a stream begins.
type Stream struct {
	Start   string // where there is no position yet: earliest, latest, an offset or a time; empty: earliest
	Missing string // where the stream no longer has the position: earliest, latest or stop; empty: stop
}

// Login is who connects: User, with Password or with PasswordFile, whose content is the password and is read at each
// Open.
type Login = access.Login

// TLS is how amqps is secured: by CAFile, the authorities to trust (empty: the system's), and by CertFile and KeyFile
// of the client, both or neither. All are names of PEM files, which are read at each Open.
type TLS = access.TLS

// Kind is "amqp".
func (s Source) Kind() string { return Name }

// Topic is the queue.
func (s Source) Topic() string { return s.Queue }

// Open connects, and consumes the queue if no one else does.
func (s Source) Open(ctx context.Context, session subscribe.Session) (subscribe.Subscription, error) {
	s, err := s.expand(session.Expand)
	if err != nil {
		return nil, err
	}
	where, err := s.address()
	if err != nil {
		return nil, err
	}
	l, err := dial(ctx, where, "shardctl "+string(session.Key()))
	if err != nil {
		return nil, where.explain(s.Queue, err)
	}
	sub, err := s.subscribe(ctx, l, session)
	if err != nil {
		l.abort()
		return nil, err
	}
	return sub, nil
}

// subscribe opens what is asked for on a connection.
func (s Source) subscribe(ctx context.Context, l *link, session subscribe.Session) (subscribe.Subscription, error) {
	c := newConsumer(s, l, session)
	if s.Stream != nil {
		return openStream(ctx, c, *s.Stream, session.Checkpoint)
	}
	return openQueue(ctx, c)
}

// expand replaces the variables in all fields.
func (s Source) expand(expand func(field, text string) (string, error)) (Source, error) {
	var stream Stream
	if s.Stream != nil {
		stream = Stream{cmp.Or(s.Stream.Start, DefaultStart), cmp.Or(s.Stream.Missing, DefaultMissing)}
		s.Stream = &stream
	}
	e := access.NewExpander(Name, expand)
	s.URL, s.Queue, s.KeyHeader = e.Text("url", s.URL), e.Text("queue", s.Queue), e.Text("keyHeader", s.KeyHeader)
	s.Login, s.TLS = e.Login("", s.Login), e.TLS(s.TLS)
	stream.Start, stream.Missing = e.Text("stream.start", stream.Start), e.Text("stream.missing", stream.Missing)
	if err := e.Err(); err != nil {
		return s, fmt.Errorf("subscribe to a queue: %w", err)
	}
	return s, s.check()
}

// check says what is wrong with fields that variables came into. It does not quote them.
func (s Source) check() error {
	if s.Queue == "" || len(s.Queue) > maxName {
		return fmt.Errorf("amqp.queue: must be a name of 1 to %d bytes, what its variables hold is not", maxName)
	}
	if s.Stream == nil {
		return nil
	}
	_, err := parseStart(s.Stream.Start)
	return err
}

// prefetch is how many messages the broker sends ahead.
func (s Source) prefetch(inFlight int) int {
	n := cmp.Or(s.Prefetch, inFlight)
	if s.Stream != nil && s.Prefetch == 0 {
		n = streamsPrefetch
	}
	return min(max(n, inFlight), maxPrefetch)
}
