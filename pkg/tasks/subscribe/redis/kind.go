package redis

import (
	"cmp"
	_ "embed"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/shardctl/shardctl/pkg/tasks/decode"
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
		Login: Login{
			User:         r.Text(n.Get("user"), ""),
			Password:     r.Text(n.Get("password"), ""),
			PasswordFile: r.Text(n.Get("passwordFile"), ""),
		},
		TLS: TLS{
			CAFile:   r.Text(n.At("tls", "caFile"), ""),
			CertFile: r.Text(n.At("tls", "certFile"), ""),
			KeyFile:  r.Text(n.At("tls", "keyFile"), ""),
		},
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
	if start := cmp.Or(s.Start, DefaultStart); !variable(start) && start != Earliest && start != Latest && !isID(start) {
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
	return append(append(wrong, s.validateURL()...), s.validateLogin()...)
}

func (s Source) validateURL() []decode.FieldError {
	// Not quoted: it may hold a password.
	refuse := func(words string, path ...string) []decode.FieldError {
		return []decode.FieldError{{Path: path, Message: words}}
	}
	switch {
	case s.URL == "":
		return refuse("is required", "url")
	case variable(s.URL):
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

func (s Source) validateLogin() []decode.FieldError {
	var wrong []decode.FieldError
	if s.Login.Password != "" && s.Login.PasswordFile != "" {
		wrong = append(wrong, decode.FieldError{
			Path: []string{"passwordFile"}, Message: "is set together with password: use one of them",
		})
	}
	if s.Login.User != "" && s.Login.Password == "" && s.Login.PasswordFile == "" {
		wrong = append(wrong, decode.FieldError{
			Path: []string{"user"}, Message: "has no password: set password or passwordFile",
		})
	}
	if (s.TLS.CertFile == "") != (s.TLS.KeyFile == "") {
		wrong = append(wrong, decode.FieldError{
			Path: []string{"tls"}, Message: "has one of certFile and keyFile, must have both or neither",
		})
	}
	return wrong
}

func variable(text string) bool { return strings.Contains(text, "$(") }

var variableOnly = regexp.MustCompile(`^\$\([^)]*\)$`)

// hidden is a password as it is shown. A reference to a variable is none.
func hidden(password string) any {
	switch {
	case password == "":
		return nil
	case variableOnly.MatchString(password):
		return password
	default:
		return decode.Masked
	}
}

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
		"user", decode.TextOrNil(s.Login.User),
		"password", hidden(s.Login.Password),
		"passwordFile", decode.TextOrNil(s.Login.PasswordFile),
	)
	if s.TLS != (TLS{}) {
		fields = append(fields, decode.Pairs("tls", decode.Pairs(
			"caFile", decode.TextOrNil(s.TLS.CAFile),
			"certFile", decode.TextOrNil(s.TLS.CertFile),
			"keyFile", decode.TextOrNil(s.TLS.KeyFile),
		))...)
	}
	return fields
}
