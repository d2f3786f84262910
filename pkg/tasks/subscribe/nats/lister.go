package nats

import (
	"context"
	_ "embed"
	"errors"
	"slices"
	"strings"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/shardctl/shardctl/pkg/tasks/decode"
	"github.com/shardctl/shardctl/pkg/tasks/discover"
	"github.com/shardctl/shardctl/pkg/tasks/internal/access"
)

// Lister finds streams of JetStream. Texts are as written: $(NAME) in them is replaced at each look.
type Lister struct {
	Servers []string // HOST:PORT or nats://…, tls://…, several of them also with commas between
	Streams []string // patterns: see [discover.ParsePatterns]
	Login   Login
	TLS     TLS
}

// ListerKind reads listers from a configuration.
type ListerKind struct{}

var _ discover.Kind = ListerKind{}

//go:embed lister.schema.json
var listerSchema string

// Name is "nats".
func (ListerKind) Name() string { return Name }

// Schema is that of the mapping with servers, streams and so on.
func (ListerKind) Schema() string { return listerSchema }

// Parse reads a [Lister].
func (ListerKind) Parse(n *decode.Node, r *decode.Reader) discover.Lister {
	source := Kind{}.Parse(n, r).(Source) // the fields of a connection are the same
	return Lister{
		Servers: source.Servers, Streams: r.TextOrList(n.Get("streams")), Login: source.Login, TLS: source.TLS,
	}
}

// Kind is "nats".
func (Lister) Kind() string { return Name }

// Validate checks each field, and that those that are set go together.
func (l Lister) Validate() []decode.FieldError {
	s := Source{Servers: l.Servers, Login: l.Login, TLS: l.TLS}
	return slices.Concat(s.validateServers(), s.validateLogin(), discover.ValidatePatterns("streams", l.Streams))
}

// Print shows the fields as they are written.
func (l Lister) Print() any {
	fields := Source{Servers: l.Servers, Login: l.Login, TLS: l.TLS}.Print() // its first field is servers
	return slices.Insert(fields, 1, decode.Field{Name: "streams", Value: l.Streams})
}

// listWithin is how long a look may take.
const listWithin = 2 * answerWithin

// List asks the server for all streams of the account. Those of the server itself, whose names begin with "$", are left
// out.
func (l Lister) List(ctx context.Context, env discover.Env) ([]discover.Found, error) {
	e := access.NewExpander(Name, env.Expand)
	to := newCluster(e, l.Servers, l.Login, l.TLS)
	patterns, err := env.Patterns("nats.streams", l.Streams)
	if e.Add(err); e.Err() == nil {
		e.Add(to.check(l.Servers))
	}
	if err := e.Err(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, listWithin, errors.New(silent))
	defer cancel()
	all, err := to.streams(ctx, env.Group, patterns)
	if cause := context.Cause(ctx); err != nil && cause != nil {
		err = cause
	}
	if err != nil {
		return nil, (&link{servers: to.hosts(), topic: "streams"}).explain(err)
	}
	return all, nil
}

// streams asks over a connection of its own.
func (c cluster) streams(ctx context.Context, name string, patterns discover.Patterns) ([]discover.Found, error) {
	conn, err := c.connect(ctx, name)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	js, err := jetstream.New(conn)
	if err != nil {
		return nil, err
	}
	all := []discover.Found{}
	streams := js.StreamNames(ctx)
	for name := range streams.Name() {
		if !strings.HasPrefix(name, "$") && patterns.Match(name) {
			all = append(all, discover.Found{Name: name})
		}
	}
	return all, streams.Err()
}
