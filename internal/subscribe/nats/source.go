// Package nats is the source of messages that reads NATS: streams of JetStream, and plain subjects.
//
// The position in a stream is that of a durable pull consumer. Each owner, and each Open, makes one of its own, which
// begins after what the last one had acknowledged, and deletes the last one. So what was not acknowledged comes again
// at once and in order, and the acknowledgements of an earlier owner find no consumer.
//
// A plain subject has no memory. What is published while no one is subscribed is lost, and there is nothing to
// acknowledge.
package nats

import (
	"cmp"
	"net/url"
	"regexp"
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
const Name = "nats"

// Source reads one stream of JetStream or, without Stream, a plain subject. Fields are as written: $(NAME) in them is
// replaced at each Open.
type Source struct {
	Servers  []string // HOST:PORT or nats://…, tls://…, several of them also with commas between
	Stream   string
	Subject  string // filter of a stream, or the plain subject; wildcards are allowed
	Consumer string // first part of the name of the durable consumers; empty: shardctl-GROUP-TASK
	Start    string // earliest, latest or a time as of RFC 3339; empty: earliest
	Missing  string // earliest, latest or stop; empty: stop
	Login    Login
	TLS      connect.TLS
}

// Login is how a replica says who it is: in one way, or not at all.
type Login struct {
	CredsFile string // with a JWT and its seed
	NKeyFile  string // with the seed of an NKey
	TokenFile string // its content is a token
	connect.Login
}

// Kind is "nats".
func (s Source) Kind() string { return Name }

// Topic is the stream, and its filter behind a colon, or the plain subject.
func (s Source) Topic() string {
	if s.Stream == "" || s.Subject == "" {
		return s.Stream + s.Subject
	}
	return s.Stream + ":" + s.Subject
}

// fields are what a configuration says of a source.
func (s *Source) fields() field.List {
	return slices.Concat(field.List{
		servers(&s.Servers),
		{
			Name: "stream", Value: field.Text{
				To: &s.Stream, Valid: name.MatchString, Must: "the name of a stream: no blank, dot, *, > or slash",
			},
			Doc: "It must exist, since it is never created. Left out: a plain subject.",
		},
		{
			Name: "subject", Value: field.Text{
				To: &s.Subject, Valid: isSubject, Must: "words with points between, such as orders.eu or orders.>",
			},
			Doc: "Which messages of the stream, or the plain subject; wildcards are allowed. " +
				"What a plain subject says while no one is subscribed is lost.",
			Unset: "all of the stream",
		},
		{
			Name: "consumer", Value: field.Text{
				To: &s.Consumer, Valid: isConsumer, Must: "a name of at most 200 characters: no blank, dot, *, > or slash",
			},
			Doc: "First part of the name of the durable consumer, at most 200 characters.", Unset: "`shardctl-GROUP-TASK`",
		},
		{
			Name: "start", Value: field.Text{
				To: &s.Start, Valid: isStart, Must: "earliest, latest or a time such as 2026-01-31T12:00:00Z",
				Pattern: `^(earliest|latest|[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt].+)$|\$\(`,
			},
			Doc:   "Where a new subscription of a stream begins: `earliest`, `latest`, or a time as `2026-01-31T12:00:00Z`.",
			Unset: "`earliest`",
		},
		{
			Name: "missing", Value: field.Text{
				To: &s.Missing, OneOf: []string{subscribe.Earliest, subscribe.Latest, subscribe.Stop},
			},
			Doc:   "When messages that were not read are gone: `earliest`, `latest`, or `stop`, which fails the task.",
			Unset: "`stop`",
		},
	}, s.Login.fields(), field.List{tlsField(&s.TLS)})
}

// servers is the field of that name, of sources and of listers.
func servers(to *[]string) field.Field {
	return field.Field{
		Name: "servers", Value: field.Texts{
			To: to, Required: "is required: HOST:PORT of one server or more", Form: "HOST:PORT", Valid: isServer,
			Message: "is not the address of a server, must be HOST:PORT or nats://HOST:PORT",
		},
		Doc: "HOST:PORT, `nats://…` or `tls://…`: a list, or text as `\"a:4222,b:4222\"`.",
	}
}

func tlsField(t *connect.TLS) field.Field {
	return t.Field("Where a file is set, every connection uses TLS.")
}

func (l *Login) fields() field.List {
	return append(field.List{
		{Name: "credsFile", Value: field.Text{To: &l.CredsFile}, Doc: "File with a JWT and its seed."},
		{Name: "nkeyFile", Value: field.Text{To: &l.NKeyFile}, Doc: "File with the seed of an NKey."},
		{Name: "tokenFile", Value: field.Text{To: &l.TokenFile}, Doc: "File whose content is a token."},
	}, l.Fields("that of the address")...)
}

// Kind reads sources of NATS from a configuration.
var Kind = field.Kind(Name, "Receives the messages of a NATS stream (JetStream), or of a plain subject.",
	(*Source).fields, func(s *Source, _ *decode.Node) subscribe.Source { return *s })

// Print shows the fields as they are written.
func (s Source) Print() decode.Fields {
	if s.Stream != "" {
		s.Start, s.Missing = cmp.Or(s.Start, subscribe.Earliest), cmp.Or(s.Missing, subscribe.Stop)
	}
	return s.fields().Print()
}

// Validate checks each field, and that those that are set go together.
func (s Source) Validate() []decode.FieldError {
	wrong := s.fields().Check()
	say := func(field, words string) {
		wrong = append(wrong, decode.FieldError{Path: []string{field}, Message: words})
	}
	if s.Stream == "" && s.Subject == "" {
		say("stream", "is required, or subject for a plain subject")
	}
	if s.Stream == "" {
		for _, f := range []struct{ field, text string }{
			{"consumer", s.Consumer}, {"start", s.Start}, {"missing", s.Missing},
		} {
			if f.text != "" {
				say(f.field, "is set without stream: a plain subject has no position")
			}
		}
	}
	return slices.Concat(wrong, s.Login.validate(), s.TLS.Validate())
}

// longestConsumer leaves characters for what follows in the names of consumers, which may have 255 characters.
const longestConsumer = 200

func isConsumer(text string) bool { return name.MatchString(text) && len(text) <= longestConsumer }

var name = regexp.MustCompile(`^[^\s.*>/\\]+$`)

func isSubject(text string) bool {
	words := strings.Split(text, ".")
	for i, word := range words {
		last := i == len(words)-1
		if word == "" || strings.ContainsAny(word, " \t\r\n") || word == ">" && !last ||
			len(word) > 1 && strings.ContainsAny(word, "*>") {
			return false
		}
	}
	return true
}

func isStart(text string) bool {
	_, err := time.Parse(time.RFC3339, text)
	return err == nil || text == subscribe.Earliest || text == subscribe.Latest
}

// isServer says whether text is an address with a host, and a port that there is.
func isServer(text string) bool {
	if !strings.Contains(text, "://") {
		text = "nats://" + text
	}
	u, err := url.Parse(text)
	if err != nil || u.Hostname() == "" || !slices.Contains([]string{"nats", "tls", "ws", "wss"}, u.Scheme) {
		return false
	}
	port, err := strconv.ParseUint(u.Port(), 10, 16)
	return u.Port() == "" || err == nil && port > 0
}

// validate says whether there are two ways.
func (l Login) validate() []decode.FieldError {
	var wrong []decode.FieldError
	ways := []struct{ field, text string }{
		{"credsFile", l.CredsFile}, {"nkeyFile", l.NKeyFile}, {"tokenFile", l.TokenFile}, {"user", l.User},
	}
	first := ""
	for _, way := range ways {
		switch {
		case way.text == "":
		case first == "":
			first = way.field
		default:
			message := "is set together with " + first + ": use one of them"
			wrong = append(wrong, decode.FieldError{Path: []string{way.field}, Message: message})
		}
	}
	return slices.Concat(wrong, l.Validate(), l.ValidateUser())
}
