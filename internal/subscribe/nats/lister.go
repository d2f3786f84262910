package nats

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/shardctl/shardctl/internal/connect"
	"github.com/shardctl/shardctl/internal/decode"
	"github.com/shardctl/shardctl/internal/discover"
	"github.com/shardctl/shardctl/internal/field"
)

// Lister finds streams of JetStream. Texts are as written: $(NAME) in them is replaced at each look.
type Lister struct {
	Servers []string // HOST:PORT or nats://…, tls://…, several of them also with commas between
	Streams []string // patterns: see [discover.ParsePatterns]
	Login   Login
	TLS     connect.TLS
}

// fields are what a configuration says of a lister.
func (l *Lister) fields() field.List {
	return slices.Concat(field.List{
		servers(&l.Servers),
		{
			Name: "streams", Value: field.Patterns{To: &l.Streams},
			Doc: "Which streams: `*` stands for any text, `?` for one character; or a regular expression between slashes.",
		},
	}, l.Login.fields(), field.List{tlsField(&l.TLS)})
}

// ListerKind reads listers from a configuration.
var ListerKind = field.Kind(Name, "Finds the streams of NATS JetStream.", (*Lister).fields,
	func(l *Lister, _ *decode.Node) discover.Lister { return *l })

// Kind is "nats".
func (Lister) Kind() string { return Name }

// Validate checks each field, and that those that are set go together.
func (l Lister) Validate() []decode.FieldError {
	return slices.Concat(l.fields().Check(), l.Login.validate(), l.TLS.Validate(),
		discover.ValidatePatterns("streams", l.Streams))
}

// Print shows the fields as they are written.
func (l Lister) Print() any { return l.fields().Print() }

// listWithin is how long a look may take.
const listWithin = 2 * answerWithin

// List asks the server for all streams of the account. Those of the server itself, whose names begin with "$", are left
// out.
func (l Lister) List(ctx context.Context, env discover.Env) ([]discover.Found, error) {
	err := l.fields().Expand(Name, env.Expand)
	patterns, noPatterns := env.Patterns("nats.streams", l.Streams)
	if err := field.Join(err, noPatterns); err != nil {
		return nil, err
	}
	to := cluster{l.Servers, l.Login, l.TLS}
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
		if strings.HasPrefix(name, "$") || !patterns.Match(name) {
			continue
		}
		if all, err = discover.Append(all, discover.Found{Name: name}); err != nil {
			return nil, fmt.Errorf("the list %w", err)
		}
	}
	return all, streams.Err()
}
