// Package redis is the source of messages that reads Redis streams.
//
// By default the position is a consumer group's, and one entry is acknowledged by one XACK. A hash beside the stream
// holds the fencing token of the last owner. Every command that changes the group goes through a script that compares
// the token first. So a replica that has lost its lease takes nothing and acknowledges nothing.
//
// With offsets: store the position is kept with the lock instead, and nothing is written to Redis but dead letters.
//
// It needs Redis 7.0 or newer, or Valkey, since older ones do not count the entries that were added to a stream.
package redis

import (
	"cmp"
	"context"
	"net/url"
	"slices"
	"time"

	"github.com/shardctl/shardctl/internal/connect"
	"github.com/shardctl/shardctl/internal/decode"
	"github.com/shardctl/shardctl/internal/field"
	"github.com/shardctl/shardctl/internal/subscribe"
)

// Name is the field of a task that chooses this source.
const Name = "redis"

// What fields are when left out.
const (
	DefaultField = "body"
	DefaultBlock = 5 * time.Second
)

// The fields of an entry that hold a message's key and media type. All others but the body's are headers.
const (
	keyField  = "key"
	typeField = "type"
)

// Source reads one stream. Fields are as written: $(NAME) in them is replaced at each Open.
type Source struct {
	URL     string // redis://HOST:PORT/DATABASE or rediss://…, with USER:PASSWORD@ where it is wanted
	Stream  string
	Group   string // of consumers; empty: shardctl.GROUP.TASK
	Start   string // earliest, latest, or the ID of the entry to begin after; empty: earliest
	Offsets string // broker (a consumer group) or store; empty: broker
	Missing string // earliest, latest or stop; empty: stop
	Field   string // of an entry that holds the body; empty: body
	// Block is how long one read waits for entries; 0: the default. It bounds how soon a silent broker is noticed.
	Block time.Duration
	Login connect.Login
	TLS   connect.TLS
}

// Kind is "redis".
func (s Source) Kind() string { return Name }

// Topic is the stream.
func (s Source) Topic() string { return s.Stream }

func (s Source) inStore() bool { return s.Offsets == subscribe.Store }

// fields are what a configuration says of a source.
func (s *Source) fields() field.List {
	return slices.Concat(field.List{
		{
			Name: "url", Value: field.Text{To: &s.URL, Required: "is required", Valid: isURL, Message: notURL},
			Doc: "`redis://HOST:PORT/DATABASE`, or `rediss://…` for TLS.",
		},
		{
			Name: "stream", Value: field.Text{To: &s.Stream, Required: "is required"},
			Doc: "It must exist, since it is never created.",
		},
		{
			Name: "group", Value: field.Text{To: &s.Group}, Doc: "Name of the consumer group.",
			Unset: "`shardctl.GROUP.TASK`",
		},
		{
			Name: "start", Value: field.Text{
				To: &s.Start, Default: subscribe.Earliest, Valid: isStart,
				Must: "earliest, latest or the ID of an entry such as 1700000000000-0",
			},
			Doc: "Where a new subscription begins: `earliest`, `latest`, or after the entry of an ID.",
		},
		{
			Name: "offsets", Value: subscribe.OffsetsField(&s.Offsets),
			Doc: "Where the position is kept: `broker` is a consumer group, `store` is the lock's checkpoint.",
		},
		{
			Name: "missing", Value: subscribe.MissingField(&s.Missing),
			Doc: "When entries that were not read are gone: `earliest`, `latest`, or `stop`, which fails the task.",
		},
		{
			Name: "field", Value: field.Text{
				To: &s.Field, Default: DefaultField,
				Valid: func(name string) bool { return name != keyField && name != typeField },
				Must:  "another name than key and type, which hold the message's key and media type",
			},
			Doc: "The field of an entry that holds the body.",
		},
		{
			Name: "block", Value: field.Duration{To: &s.Block, Default: DefaultBlock, Min: leastBlock, Max: mostBlock},
			Doc: "How long one read waits for entries, from `10ms` to `1m`.",
		},
	}, s.Login.Fields("that of the URL"), field.List{s.TLS.Field("Of `rediss://`.")})
}

// Kind reads sources of Redis streams from a configuration.
var Kind = field.Kind(Name, "Receives the entries of a Redis stream.", (*Source).fields,
	func(s *Source, _ *decode.Node) subscribe.Source { return *s })

// Print shows the fields as they are written.
func (s Source) Print() decode.Fields { return s.fields().Print() }

// The bounds of Block. A longer one would hide for long that the broker is silent.
const (
	leastBlock = 10 * time.Millisecond
	mostBlock  = time.Minute
)

// Validate checks each field, and that those that are set go together.
func (s Source) Validate() []decode.FieldError {
	wrong := s.fields().Check()
	say := func(field, words string) {
		wrong = append(wrong, decode.FieldError{Path: []string{field}, Message: words})
	}
	if s.inStore() && s.Group != "" {
		say("group", "is set together with offsets: store, which uses no group: leave one of them out")
	}
	if !decode.HasVariables(s.URL) && isURL(s.URL) {
		u, _ := url.Parse(s.URL)
		if s.TLS != (connect.TLS{}) && u.Scheme == "redis" {
			say("tls", "is set, but a URL that begins with redis:// uses no TLS: write rediss://")
		} else if u.User != nil && s.Login != (connect.Login{}) {
			say("url", "holds a user or password, and so do user, password or passwordFile: use one of them")
		}
	}
	return slices.Concat(wrong, s.Login.Validate(), s.TLS.Validate())
}

func isURL(text string) bool {
	u, err := url.Parse(text)
	if err != nil || u.Hostname() == "" {
		return false
	}
	_, err = parseURL(text)
	return err == nil
}

func isStart(text string) bool {
	return text == subscribe.Earliest || text == subscribe.Latest || isID(text)
}

const notURL = "is not the URL of a Redis, must be redis://HOST:PORT/DATABASE or rediss://HOST:PORT/DATABASE"

// Open connects and begins where the subscription was left. It creates no stream.
func (s Source) Open(ctx context.Context, session subscribe.Session) (subscribe.Subscription, error) {
	if err := s.fields().Expand(Name, session.Expand); err != nil {
		return nil, err
	}
	s.Group = cmp.Or(s.Group, "shardctl."+session.Group+"."+session.Name)
	o, err := s.options()
	if err != nil {
		return nil, err
	}
	l := newLink(o, s.Stream)
	sub, err := s.begin(ctx, l, session)
	switch {
	case err == nil:
		return sub, nil
	case ctx.Err() != nil:
		err = l.explain(ctx.Err())
	}
	_ = l.close(func() {}) // what is wrong is known
	return nil, err
}

func (s Source) begin(ctx context.Context, l *link, session subscribe.Session) (subscribe.Subscription, error) {
	c := common{link: l, field: s.Field, block: s.Block, start: s.Start, missing: s.Missing, log: session.Log}
	if s.inStore() {
		return openStored(ctx, c, session.Checkpoint)
	}
	owner := owner{
		hash: ownerKey(s.Stream, s.Group), task: string(session.Key()), token: session.Token, group: s.Group,
	}
	return openGrouped(ctx, c, owner, session.Checkpoint, session.InFlight)
}
