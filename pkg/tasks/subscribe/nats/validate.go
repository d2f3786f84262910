package nats

import (
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/shardctl/shardctl/pkg/tasks/decode"
	"github.com/shardctl/shardctl/pkg/tasks/internal/access"
)

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
