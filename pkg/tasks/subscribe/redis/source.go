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
	_ "embed"
	"net/url"
	"slices"
	"time"

	"github.com/shardctl/shardctl/pkg/tasks/decode"
	"github.com/shardctl/shardctl/pkg/tasks/internal/access"
	"github.com/shardctl/shardctl/pkg/tasks/subscribe"
)

// Name is the field of a task that chooses this source.
const Name = "redis"

// Where a position is kept.
const (
	Broker = "broker" // in a consumer group
	Store  = "store"  // with the lock, as a checkpoint
)

// Where to begin, and what to do about a position that is no longer in the stream.
const (
	Earliest = "earliest"
	Latest   = "latest"
	Stop     = "stop"
)

// What fields are when left out.
const (
	DefaultStart   = Earliest
	DefaultOffsets = Broker
	DefaultMissing = Stop
	DefaultField   = "body"
	DefaultBlock   = 5 * time.Second
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
	Start   string // Earliest, Latest, or the ID of the entry to begin after; empty: Earliest
	Offsets string // Broker or Store; empty: Broker
	Missing string // Earliest, Latest or Stop; empty: Stop
	Field   string // of an entry that holds the body; empty: body
	// Block is how long one read waits for entries; 0: the default. It bounds how soon a silent broker is noticed.
	Block time.Duration
	Login Login
	TLS   TLS
}

// Login is who connects: User, with Password or with PasswordFile, whose content is the password and is read at each
// Open.
type Login = access.Login

// TLS is how rediss is secured: by CAFile, the authorities to trust (empty: the system's), and by CertFile and KeyFile
// of the client, both or neither. All are names of PEM files, which are read at each Open.
type TLS = access.TLS

// Kind is "redis".
func (s Source) Kind() string { return Name }

// Topic is the stream.
func (s Source) Topic() string { return s.Stream }

func (s Source) inStore() bool { return s.Offsets == Store }

func (s Source) block() time.Duration { return cmp.Or(s.Block, DefaultBlock) }

//go:embed schema.json
var schema string

// Kind reads sources of Redis streams from a configuration.
type Kind struct{}

// Name is "redis".
func (Kind) Name() string { return Name }

// Schema is that of the mapping with url, stream, group and so on.
func (Kind) Schema() string { return schema }

// Parse reads a Source.
func (Kind) Parse(n *decode.Node, r *decode.Reader) subscribe.Source {
	r.CheckStart(n, nil)
	return Source{
		URL:     r.Text(n.Get("url"), ""),
		Stream:  r.Text(n.Get("stream"), ""),
		Group:   r.Text(n.Get("group"), ""),
		Start:   r.Text(n.Get("start"), DefaultStart),
		Offsets: r.Text(n.Get("offsets"), DefaultOffsets),
		Missing: r.Text(n.Get("missing"), DefaultMissing),
		Field:   r.Text(n.Get("field"), DefaultField),
		Block:   r.Positive(n.Get("block"), DefaultBlock, ""),
		Login:   access.ParseLogin(n, r),
		TLS:     access.ParseTLS(n.Get("tls"), r),
	}
}

// The bounds of Block. A longer one would hide for long that the broker is silent.
const (
	leastBlock = 10 * time.Millisecond
	mostBlock  = time.Minute
)

// Validate checks each field, and that those that are set go together.
func (s Source) Validate() []decode.FieldError {
	var wrong []decode.FieldError
	must := func(field, words string) {
		wrong = append(wrong, decode.FieldError{Path: []string{field}, Must: words})
	}
	say := func(words string, path ...string) {
		wrong = append(wrong, decode.FieldError{Path: path, Message: words})
	}
	if s.Stream == "" {
		say("is required", "stream")
	}
	start := cmp.Or(s.Start, DefaultStart)
	if !decode.HasVariables(start) && start != Earliest && start != Latest && !isID(start) {
		must("start", "earliest, latest or the ID of an entry such as 1700000000000-0")
	}
	if !slices.Contains([]string{"", Broker, Store}, s.Offsets) {
		must("offsets", "broker or store")
	}
	if !slices.Contains([]string{"", Earliest, Latest, Stop}, s.Missing) {
		must("missing", "earliest, latest or stop")
	}
	if s.inStore() && s.Group != "" {
		say("is set together with offsets: store, which uses no group: leave one of them out", "group")
	}
	if s.Field == keyField || s.Field == typeField {
		must("field", "another name than key and type, which hold the message's key and media type")
	}
	if s.Block != 0 && (s.Block < leastBlock || s.Block > mostBlock) {
		must("block", "from 10ms to 1m")
	}
	return slices.Concat(wrong, s.validateURL(), s.Login.Validate(), s.TLS.Validate())
}

func (s Source) validateURL() []decode.FieldError {
	// Not quoted: it may hold a password.
	refuse := func(words string, path ...string) []decode.FieldError {
		return []decode.FieldError{{Path: path, Message: words}}
	}
	switch {
	case s.URL == "":
		return refuse("is required", "url")
	case decode.HasVariables(s.URL):
		return nil
	}
	u, err := url.Parse(s.URL)
	if err != nil || u.Scheme != "redis" && u.Scheme != "rediss" || u.Hostname() == "" {
		return refuse(notURL, "url")
	}
	if _, err := parseURL(s.URL); err != nil {
		return refuse(notURL, "url")
	}
	if s.TLS != (TLS{}) && u.Scheme == "redis" {
		return refuse("is set, but a URL that begins with redis:// uses no TLS: write rediss://", "tls")
	}
	if u.User != nil && s.Login != (Login{}) {
		return refuse("holds a user or password, and so do user, password or passwordFile: use one of them", "url")
	}
	return nil
}

const notURL = "is not the URL of a Redis, must be redis://HOST:PORT/DATABASE or rediss://HOST:PORT/DATABASE"

// Print shows the fields as they are written.
func (s Source) Print() decode.Fields {
	fields := decode.Pairs(
		"url", decode.WithoutPasswords(s.URL),
		"stream", s.Stream,
		"group", decode.TextOrNil(s.Group),
		"start", cmp.Or(s.Start, DefaultStart),
		"offsets", cmp.Or(s.Offsets, DefaultOffsets),
		"missing", cmp.Or(s.Missing, DefaultMissing),
		"field", cmp.Or(s.Field, DefaultField),
		"block", s.block(),
	)
	return slices.Concat(fields, s.Login.Print(), s.TLS.Print())
}

// Open connects and begins where the subscription was left. It creates no stream.
func (s Source) Open(ctx context.Context, session subscribe.Session) (subscribe.Subscription, error) {
	set, err := s.settings(session)
	if err != nil {
		return nil, err
	}
	o, err := set.options()
	if err != nil {
		return nil, err
	}
	l := newLink(o, set.stream)
	sub, err := s.begin(ctx, l, set, session)
	switch {
	case err == nil:
		return sub, nil
	case ctx.Err() != nil:
		err = l.explain(ctx.Err())
	}
	_ = l.close(func() {}) // what is wrong is known
	return nil, err
}

func (s Source) begin(
	ctx context.Context, l *link, set settings, session subscribe.Session,
) (subscribe.Subscription, error) {
	c := common{
		link: l, field: set.field, block: s.block(), start: set.start, missing: s.Missing, log: session.Log,
	}
	if s.inStore() {
		return openStored(ctx, c, session.Checkpoint)
	}
	owner := owner{
		hash: ownerKey(set.stream, set.group), task: string(session.Key()), token: session.Token, group: set.group,
	}
	return openGrouped(ctx, c, owner, session.InFlight)
}
