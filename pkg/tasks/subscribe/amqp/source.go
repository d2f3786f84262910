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
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/shardctl/shardctl/pkg/tasks/decode"
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

// Words of Stream's fields.
const (
	earliest = "earliest"
	latest   = "latest"
	stop     = "stop"
)

const (
	startForms   = "earliest, latest, an offset such as 4711, or a time such as 2026-01-02T15:04:05Z"
	missingForms = "earliest, latest or stop"
)

var errStart = errors.New("amqp.stream.start: must be " + startForms)

// parseStart is the value of the consumer's argument x-stream-offset. It is latest for the one start that is to be
// looked up first.
func parseStart(text string) (any, error) {
	switch text {
	case earliest:
		return "first", nil
	case latest:
		return latest, nil
	}
	if offset, err := strconv.ParseInt(text, 10, 64); err == nil && offset >= 0 {
		return offset, nil
	}
	if at, err := time.Parse(time.RFC3339, text); err == nil {
		return at, nil
	}
	return nil, errStart
}

//go:embed schema.json
var schema string

// Kind reads sources from a configuration.
type Kind struct{}

// Name is "amqp".
func (Kind) Name() string { return Name }

// Schema is that of the mapping with url, queue and so on.
func (Kind) Schema() string { return schema }

// Parse reads a Source.
func (Kind) Parse(n *decode.Node, r *decode.Reader) subscribe.Source {
	r.CheckStart(n, nil)
	s := Source{
		URL:       r.Text(n.Get("url"), ""),
		Login:     access.ParseLogin(n, r),
		Queue:     r.Text(n.Get("queue"), ""),
		Prefetch:  r.Count(n.Get("prefetch")),
		KeyHeader: r.Text(n.Get("keyHeader"), ""),
		TLS:       access.ParseTLS(n.Get("tls"), r),
	}
	if stream := n.Get("stream"); stream != nil {
		s.Stream = &Stream{
			Start:   r.Text(stream.Get("start"), DefaultStart),
			Missing: r.Text(stream.Get("missing"), DefaultMissing),
		}
	}
	return s
}

// Validate checks the URL, the queue, the prefetch, the stream and the files.
func (s Source) Validate() []decode.FieldError {
	wrong := s.validateURL()
	switch path := []string{"queue"}; {
	case s.Queue == "":
		wrong = append(wrong, decode.FieldError{Path: path, Message: "is required"})
	case len(s.Queue) > maxName && !decode.HasVariables(s.Queue):
		wrong = append(wrong, decode.FieldError{Path: path, Must: "a name of at most 255 bytes"})
	}
	if s.Prefetch < 0 || s.Prefetch > maxPrefetch {
		wrong = append(wrong, decode.FieldError{Path: []string{"prefetch"}, Must: "a whole number from 0 to 65535"})
	}
	if len(s.KeyHeader) > maxName && !decode.HasVariables(s.KeyHeader) {
		wrong = append(wrong, decode.FieldError{Path: []string{"keyHeader"}, Must: "a name of at most 255 bytes"})
	}
	if s.Stream != nil {
		wrong = append(wrong, decode.Within("stream", s.Stream.validate())...)
	}
	return slices.Concat(wrong, s.Login.Validate(), s.validateTLS())
}

func (s Source) validateURL() []decode.FieldError {
	path := []string{"url"}
	if s.URL == "" {
		return []decode.FieldError{{Path: path, Message: "is required"}}
	}
	if decode.HasVariables(s.URL) {
		return nil // checked when it is opened
	}
	if _, err := parseURL(s.URL); err != nil {
		return []decode.FieldError{{Path: path, Message: err.Error()}}
	}
	return nil
}

func (s Source) validateTLS() []decode.FieldError {
	wrong := s.TLS.Validate()
	if s.TLS != (TLS{}) && strings.HasPrefix(s.URL, "amqp://") {
		wrong = append(wrong, decode.FieldError{
			Path: []string{"tls"}, Message: "is set, but url is amqp://: write amqps://, or leave tls out",
		})
	}
	return wrong
}

func (s Stream) validate() []decode.FieldError {
	var wrong []decode.FieldError
	if _, err := parseStart(cmp.Or(s.Start, DefaultStart)); err != nil && !decode.HasVariables(s.Start) {
		wrong = append(wrong, decode.FieldError{Path: []string{"start"}, Must: startForms})
	}
	if !slices.Contains([]string{"", earliest, latest, stop}, s.Missing) {
		wrong = append(wrong, decode.FieldError{Path: []string{"missing"}, Must: missingForms})
	}
	return wrong
}

// Print shows the fields as they are written, without the password.
func (s Source) Print() decode.Fields {
	fields := slices.Concat(
		decode.Pairs("url", decode.WithoutPasswords(s.URL)),
		s.Login.Print(),
		decode.Pairs("queue", s.Queue, "prefetch", s.Prefetch, "keyHeader", decode.TextOrNil(s.KeyHeader)),
	)
	if s.Stream != nil {
		fields = append(fields, decode.Pairs("stream", decode.Pairs(
			"start", cmp.Or(s.Stream.Start, DefaultStart),
			"missing", cmp.Or(s.Stream.Missing, DefaultMissing),
		))...)
	}
	return append(fields, s.TLS.Print()...)
}
