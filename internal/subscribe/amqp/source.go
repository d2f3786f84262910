// Package amqp is the source of messages from RabbitMQ, by AMQP 0-9-1: its queues and its streams.
//
// A queue has one consumer, which acknowledges each message by itself. An acknowledgement carries no fencing token, and
// the broker has no means to compare one. The token that the receiver gets with each message is the guarantee.
//
// A stream keeps its messages. How far it was read is a checkpoint kept with the lock, which compares tokens.
//
// The source declares nothing: queues, streams and their arguments are the operator's.
package amqp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/shardctl/shardctl/internal/connect"
	"github.com/shardctl/shardctl/internal/decode"
	"github.com/shardctl/shardctl/internal/field"
	"github.com/shardctl/shardctl/internal/subscribe"
)

// Name is the field of a task that chooses this source.
const Name = "amqp"

const (
	maxName         = 255   // bytes of a short string of the protocol: names, keys, tags
	maxPrefetch     = 65535 // 16 bits of basic.qos
	streamsPrefetch = 100   // at least: nothing comes again because of it, and one at a time is slow
)

// Source subscribes to a queue or a stream. Fields are as written: $(NAME) in them is replaced at each Open.
type Source struct {
	URL       string        // amqp:// or amqps://, with host, port and virtual host, perhaps with user and password
	Login     connect.Login // in place of the URL's
	Queue     string
	Prefetch  int     // most messages sent ahead of their acknowledgements; 0: as many as may be in flight
	KeyHeader string  // the header that holds a message's key; empty: the routing key
	Stream    *Stream // nil: the queue is none
	TLS       connect.TLS
}

// Stream says where the reading of a stream begins.
type Stream struct {
	Start   string // where there is no position yet: earliest, latest, an offset or a time; empty: earliest
	Missing string // where the stream no longer has the position: earliest, latest or stop; empty: stop
}

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
	if err := s.fields().Expand(Name, expand); err != nil {
		return s, fmt.Errorf("subscribe to a queue: %w", err)
	}
	return s, nil
}

// fields are what a configuration says of a source. Its stream becomes a copy, as others may have the one that it was.
func (s *Source) fields() field.List {
	stream := Stream{}
	if s.Stream != nil {
		stream, s.Stream = *s.Stream, &stream
	}
	return slices.Concat(field.List{
		{
			Name: "url", Value: field.Text{To: &s.URL, Required: "is required"},
			Doc: "`amqp://HOST:PORT/VHOST`, or `amqps://…` for TLS. It may hold a user and password, with `%XX` for special " +
				"characters.",
		},
	}, s.Login.Fields("that of the URL"), field.List{
		{
			Name: "queue", Value: field.Text{To: &s.Queue, Required: "is required", Valid: isShort, Must: shortForm},
			Doc: "The queue or stream. It must exist, since nothing is declared.",
		},
		{
			Name: "prefetch", Value: field.Number{To: &s.Prefetch, Max: maxPrefetch},
			Doc: "Most messages that the broker sends ahead. `0` is `maxInFlight`, for a stream at least 100.",
		},
		{
			Name: "keyHeader", Value: field.Text{To: &s.KeyHeader, Valid: isShort, Must: shortForm},
			Doc: "The header that holds a message's key.", Unset: "the routing key",
		},
		{
			Name: "stream", Value: field.Mapping{Off: s.Stream == nil, Fields: stream.fields()},
			Doc: "Set, at least as `{}`, where the queue is a stream. Its position is kept with the lock.",
		},
		s.TLS.Field("Of `amqps://`."),
	})
}

// prefetch is how many messages the broker sends ahead.
func (s Source) prefetch(inFlight int) int {
	n := cmp.Or(s.Prefetch, inFlight)
	if s.Stream != nil && s.Prefetch == 0 {
		n = streamsPrefetch
	}
	return min(max(n, inFlight), maxPrefetch)
}

const (
	startForms = "earliest, latest, an offset such as 4711, or a time such as 2026-01-02T15:04:05Z"
	shortForm  = "a name of at most 255 bytes"
)

func (s *Stream) fields() field.List {
	return field.List{
		{
			Name: "start", Value: field.Text{
				To: &s.Start, Default: subscribe.Earliest, Valid: isStart, Must: startForms,
			},
			Doc: "Where to begin without a position: `earliest`, `latest`, an offset, or a time as `2026-01-02T15:04:05Z`.",
		},
		{
			Name: "missing", Value: subscribe.MissingField(&s.Missing),
			Doc: "What to do when the stream no longer has the position: `earliest`, `latest`, or `stop`, which fails the task.",
		},
	}
}

func isShort(name string) bool { return len(name) <= maxName }

func isStart(text string) bool {
	_, err := parseStart(text)
	return err == nil
}

var errStart = errors.New("amqp.stream.start: must be " + startForms)

// parseStart is the value of the consumer's argument x-stream-offset. It is latest for the one start that is to be
// looked up first.
func parseStart(text string) (any, error) {
	switch text {
	case subscribe.Earliest:
		return "first", nil
	case subscribe.Latest:
		return subscribe.Latest, nil
	}
	if offset, err := strconv.ParseInt(text, 10, 64); err == nil && offset >= 0 {
		return offset, nil
	}
	if at, err := time.Parse(time.RFC3339, text); err == nil {
		return at, nil
	}
	return nil, errStart
}

// Kind reads sources from a configuration.
var Kind = decode.Kind[subscribe.Source]{
	Field: Name,
	Form: func() string {
		return new(Source).fields().Schema("Receives the messages of a RabbitMQ queue or stream.")
	},
	Read: func(n *decode.Node, r *decode.Reader) subscribe.Source {
		s := Source{Stream: &Stream{}}
		if s.fields().Parse(n, r); n.Get("stream") == nil {
			s.Stream = nil
		}
		return s
	},
}

// Print shows the fields as they are written, without the password.
func (s Source) Print() decode.Fields { return s.fields().Print() }

// Validate checks each field, and that those that are set go together.
func (s Source) Validate() []decode.FieldError {
	return slices.Concat(s.fields().Check(), s.validateURL(), s.Login.Validate(), s.validateTLS())
}

func (s Source) validateURL() []decode.FieldError {
	if s.URL == "" || decode.HasVariables(s.URL) {
		return nil // checked when it is opened
	}
	if _, err := parseURL(s.URL); err != nil {
		return []decode.FieldError{{Path: []string{"url"}, Message: err.Error()}}
	}
	return nil
}

func (s Source) validateTLS() []decode.FieldError {
	wrong := s.TLS.Validate()
	if s.TLS != (connect.TLS{}) && strings.HasPrefix(s.URL, "amqp://") {
		wrong = append(wrong, decode.FieldError{
			Path: []string{"tls"}, Message: "is set, but url is amqp://: write amqps://, or leave tls out",
		})
	}
	return wrong
}
