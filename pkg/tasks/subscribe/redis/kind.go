package redis

import (
	"cmp"
	_ "embed"
	"net/url"
	"slices"
	"time"

	"github.com/shardctl/shardctl/pkg/tasks/decode"
	"github.com/shardctl/shardctl/pkg/tasks/internal/access"
	"github.com/shardctl/shardctl/pkg/tasks/subscribe"
)

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
