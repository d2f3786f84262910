package amqp

import (
	"cmp"
	_ "embed"
	"regexp"
	"slices"
	"strings"

	"github.com/shardctl/shardctl/pkg/tasks/decode"
	"github.com/shardctl/shardctl/pkg/tasks/subscribe"
)

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
		URL: r.Text(n.Get("url"), ""),
		Login: Login{
			User:         r.Text(n.Get("user"), ""),
			Password:     r.Text(n.Get("password"), ""),
			PasswordFile: r.Text(n.Get("passwordFile"), ""),
		},
		Queue:     r.Text(n.Get("queue"), ""),
		Prefetch:  r.Count(n.Get("prefetch")),
		KeyHeader: r.Text(n.Get("keyHeader"), ""),
		TLS: TLS{
			CAFile:   r.Text(n.At("tls", "caFile"), ""),
			CertFile: r.Text(n.At("tls", "certFile"), ""),
			KeyFile:  r.Text(n.At("tls", "keyFile"), ""),
		},
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
	case len(s.Queue) > maxName && !variable(s.Queue):
		wrong = append(wrong, decode.FieldError{Path: path, Must: "a name of at most 255 bytes"})
	}
	if s.Prefetch < 0 || s.Prefetch > maxPrefetch {
		wrong = append(wrong, decode.FieldError{Path: []string{"prefetch"}, Must: "a whole number from 0 to 65535"})
	}
	if len(s.KeyHeader) > maxName && !variable(s.KeyHeader) {
		wrong = append(wrong, decode.FieldError{Path: []string{"keyHeader"}, Must: "a name of at most 255 bytes"})
	}
	if s.Stream != nil {
		wrong = append(wrong, decode.Within("stream", s.Stream.validate())...)
	}
	return append(append(wrong, s.validateLogin()...), s.validateTLS()...)
}

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
	return wrong
}

func (s Source) validateURL() []decode.FieldError {
	path := []string{"url"}
	if s.URL == "" {
		return []decode.FieldError{{Path: path, Message: "is required"}}
	}
	if variable(s.URL) {
		return nil // checked when it is opened
	}
	if _, err := parseURL(s.URL); err != nil {
		return []decode.FieldError{{Path: path, Message: err.Error()}}
	}
	return nil
}

func (s Source) validateTLS() []decode.FieldError {
	var wrong []decode.FieldError
	if (s.TLS.CertFile == "") != (s.TLS.KeyFile == "") {
		wrong = append(wrong, decode.FieldError{
			Path: []string{"tls"}, Message: "has one of certFile and keyFile, must have both or neither",
		})
	}
	if s.TLS != (TLS{}) && strings.HasPrefix(s.URL, "amqp://") {
		wrong = append(wrong, decode.FieldError{
			Path: []string{"tls"}, Message: "is set, but url is amqp://: write amqps://, or leave tls out",
		})
	}
	return wrong
}

func (s Stream) validate() []decode.FieldError {
	var wrong []decode.FieldError
	if _, err := parseStart(cmp.Or(s.Start, DefaultStart)); err != nil && !variable(s.Start) {
		wrong = append(wrong, decode.FieldError{Path: []string{"start"}, Must: startForms})
	}
	if !slices.Contains([]string{"", earliest, latest, stop}, s.Missing) {
		wrong = append(wrong, decode.FieldError{Path: []string{"missing"}, Must: missingForms})
	}
	return wrong
}

// variable says whether a text is only known when the source is opened.
func variable(text string) bool { return strings.Contains(text, "$(") }

// Print shows the fields as they are written, without the password.
func (s Source) Print() decode.Fields {
	fields := decode.Pairs(
		"url", decode.WithoutPasswords(s.URL),
		"user", decode.TextOrNil(s.Login.User),
		"password", hidden(s.Login.Password),
		"passwordFile", decode.TextOrNil(s.Login.PasswordFile),
		"queue", s.Queue,
		"prefetch", s.Prefetch,
		"keyHeader", decode.TextOrNil(s.KeyHeader),
	)
	if s.Stream != nil {
		fields = append(fields, decode.Pairs("stream", decode.Pairs(
			"start", cmp.Or(s.Stream.Start, DefaultStart),
			"missing", cmp.Or(s.Stream.Missing, DefaultMissing),
		))...)
	}
	if s.TLS != (TLS{}) {
		fields = append(fields, decode.Pairs("tls", decode.Pairs(
			"caFile", decode.TextOrNil(s.TLS.CAFile),
			"certFile", decode.TextOrNil(s.TLS.CertFile),
			"keyFile", decode.TextOrNil(s.TLS.KeyFile),
		))...)
	}
	return fields
}

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
