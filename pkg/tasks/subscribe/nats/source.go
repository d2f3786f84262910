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
	_ "embed"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/shardctl/shardctl/pkg/tasks/decode"
	"github.com/shardctl/shardctl/pkg/tasks/internal/access"
	"github.com/shardctl/shardctl/pkg/tasks/subscribe"
)

// Name is the field of a task that chooses this source.
const Name = "nats"

// Where to begin, and what to do about a position that is no longer in the stream.
const (
	Earliest = "earliest"
	Latest   = "latest"
	Stop     = "stop"
)

// What fields are when left out.
const (
	DefaultStart   = Earliest
	DefaultMissing = Stop
)

// Source reads one stream of JetStream or, without Stream, a plain subject. Fields are as written: $(NAME) in them is
// replaced at each Open.
type Source struct {
	Servers  []string // HOST:PORT or nats://…, tls://…, several of them also with commas between
	Stream   string
	Subject  string // filter of a stream, or the plain subject; wildcards are allowed
	Consumer string // first part of the name of the durable consumers; empty: shardctl-GROUP-TASK
	Start    string // Earliest, Latest or a time as of RFC 3339; empty: Earliest
	Missing  string // Earliest, Latest or Stop; empty: Stop
	Login    Login
	TLS      TLS
}

// Login is how a replica says who it is: in one way, or not at all.
type Login struct {
	CredsFile      string // with a JWT and its seed
	NKeyFile       string // with the seed of an NKey
	TokenFile      string // its content is a token
	User, Password string
	PasswordFile   string // its content is the password
}

// basic is the way by user and password.
func (l Login) basic() access.Login {
	return access.Login{User: l.User, Password: l.Password, PasswordFile: l.PasswordFile}
}

// TLS is how connections are secured: by CAFile, the authorities to trust (empty: the system's), and by CertFile and
// KeyFile of the client, both or neither. All are names of PEM files, which are read at each Open. Where one is set,
// every connection uses TLS.
type TLS = access.TLS

// Kind is "nats".
func (s Source) Kind() string { return Name }

// Topic is the stream, and its filter behind a colon, or the plain subject.
func (s Source) Topic() string {
	if s.Stream == "" || s.Subject == "" {
		return s.Stream + s.Subject
	}
	return s.Stream + ":" + s.Subject
}

//go:embed schema.json
var schema string

// Kind reads sources of NATS from a configuration.
type Kind struct{}

// Name is "nats".
func (Kind) Name() string { return Name }

// Schema is that of the mapping with servers, stream, subject and so on.
func (Kind) Schema() string { return schema }

// Parse reads a Source.
func (Kind) Parse(n *decode.Node, r *decode.Reader) subscribe.Source {
	r.CheckStart(n, nil)
	return Source{
		Servers:  r.TextOrList(n.Get("servers")),
		Stream:   r.Text(n.Get("stream"), ""),
		Subject:  r.Text(n.Get("subject"), ""),
		Consumer: r.Text(n.Get("consumer"), ""),
		Start:    r.Text(n.Get("start"), ""),
		Missing:  r.Text(n.Get("missing"), ""),
		Login: Login{
			CredsFile:    r.Text(n.Get("credsFile"), ""),
			NKeyFile:     r.Text(n.Get("nkeyFile"), ""),
			TokenFile:    r.Text(n.Get("tokenFile"), ""),
			User:         r.Text(n.Get("user"), ""),
			Password:     r.Text(n.Get("password"), ""),
			PasswordFile: r.Text(n.Get("passwordFile"), ""),
		},
		TLS: access.ParseTLS(n.Get("tls"), r),
	}
}

// Print shows the fields as they are written.
func (s Source) Print() decode.Fields {
	servers := make([]string, len(s.Servers))
	for i, server := range s.Servers {
		servers[i] = shown(server)
	}
	start, missing := s.Start, s.Missing
	if s.Stream != "" {
		start, missing = cmp.Or(start, DefaultStart), cmp.Or(missing, DefaultMissing)
	}
	fields := decode.Pairs(
		"servers", servers,
		"stream", decode.TextOrNil(s.Stream),
		"subject", decode.TextOrNil(s.Subject),
		"consumer", decode.TextOrNil(s.Consumer),
		"start", decode.TextOrNil(start),
		"missing", decode.TextOrNil(missing),
		"credsFile", decode.TextOrNil(s.Login.CredsFile),
		"nkeyFile", decode.TextOrNil(s.Login.NKeyFile),
		"tokenFile", decode.TextOrNil(s.Login.TokenFile),
	)
	return slices.Concat(fields, s.Login.basic().Print(), s.TLS.Print())
}

// index is a step of a path into a list.
func index(i int) string { return strconv.Itoa(i) }

// Validate checks each field, and that those that are set go together.
func (s Source) Validate() []decode.FieldError {
	var wrong []decode.FieldError
	must := func(field, words string) {
		wrong = append(wrong, decode.FieldError{Path: []string{field}, Must: words})
	}
	say := func(field, words string) {
		wrong = append(wrong, decode.FieldError{Path: []string{field}, Message: words})
	}
	if s.Stream == "" && s.Subject == "" {
		say("stream", "is required, or subject for a plain subject")
	}
	if !decode.HasVariables(s.Stream) && !name.MatchString(s.Stream) && s.Stream != "" {
		must("stream", "the name of a stream: no blank, dot, *, > or slash")
	}
	if !decode.HasVariables(s.Subject) && !isSubject(s.Subject) && s.Subject != "" {
		must("subject", "words with points between, such as orders.eu or orders.>")
	}
	if !decode.HasVariables(s.Consumer) && s.Consumer != "" &&
		(!name.MatchString(s.Consumer) || len(s.Consumer) > longestConsumer) {
		must("consumer", "a name of at most 200 characters: no blank, dot, *, > or slash")
	}
	if !decode.HasVariables(s.Start) && !isStart(s.Start) {
		must("start", "earliest, latest or a time such as 2026-01-31T12:00:00Z")
	}
	if !slices.Contains([]string{"", Earliest, Latest, Stop}, s.Missing) {
		must("missing", "earliest, latest or stop")
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
	return slices.Concat(wrong, s.validateServers(), s.validateLogin())
}

// longestConsumer leaves characters for what follows in the names of consumers, which may have 255 characters.
const longestConsumer = 200

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
	if text == "" || text == Earliest || text == Latest {
		return true
	}
	_, err := time.Parse(time.RFC3339, text)
	return err == nil
}

func (s Source) validateServers() []decode.FieldError {
	if len(s.Servers) == 0 {
		return []decode.FieldError{{Path: []string{"servers"}, Message: "is required: HOST:PORT of one server or more"}}
	}
	var wrong []decode.FieldError
	for i, text := range s.Servers {
		if decode.HasVariables(text) {
			continue
		}
		servers := access.Addresses([]string{text})
		if len(servers) == 0 || !allOf(servers, isServer) {
			// Not quoted: it may hold a password.
			wrong = append(wrong, decode.FieldError{
				Path:    []string{"servers", index(i)},
				Message: "is not the address of a server, must be HOST:PORT or nats://HOST:PORT",
			})
		}
	}
	return wrong
}

func allOf(all []string, is func(string) bool) bool {
	return !slices.ContainsFunc(all, func(one string) bool { return !is(one) })
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

// shown is an address without its password.
func shown(server string) string {
	if strings.Contains(server, "://") {
		return decode.WithoutPasswords(server)
	}
	return strings.TrimPrefix(decode.WithoutPasswords("nats://"+server), "nats://")
}

func (s Source) validateLogin() []decode.FieldError {
	var wrong []decode.FieldError
	say := func(field, words string) {
		wrong = append(wrong, decode.FieldError{Path: []string{field}, Message: words})
	}
	ways := []struct{ field, text string }{
		{"credsFile", s.Login.CredsFile},
		{"nkeyFile", s.Login.NKeyFile},
		{"tokenFile", s.Login.TokenFile},
		{"user", s.Login.User},
	}
	first := ""
	for _, way := range ways {
		switch {
		case way.text == "":
		case first == "":
			first = way.field
		default:
			say(way.field, "is set together with "+first+": use one of them")
		}
	}
	basic := s.Login.basic()
	return slices.Concat(wrong, basic.Validate(), basic.ValidateUser(), s.TLS.Validate())
}
