package amqp

import (
	"cmp"
	_ "embed"
	"slices"
	"strings"

	"github.com/shardctl/shardctl/pkg/tasks/decode"
	"github.com/shardctl/shardctl/pkg/tasks/internal/access"
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
		URL:       r.Text(n.Get("url"), ""),
		Login:     access.ParseLogin(n, r),
		Queue:     r.Text(n.Get("queue"), ""),
		Prefetch:  r.Count(n.Get("prefetch")),
		KeyHeader: r.Text(n.Get("keyHeader"), ""),
		TLS:       access.ParseTLS(n.Get("tls"), r),
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
	case len(s.Queue) > maxName && !decode.HasVariables(s.Queue):
		wrong = append(wrong, decode.FieldError{Path: path, Must: "a name of at most 255 bytes"})
	}
	if s.Prefetch < 0 || s.Prefetch > maxPrefetch {
		wrong = append(wrong, decode.FieldError{Path: []string{"prefetch"}, Must: "a whole number from 0 to 65535"})
	}
	if len(s.KeyHeader) > maxName && !decode.HasVariables(s.KeyHeader) {
		wrong = append(wrong, decode.FieldError{Path: []string{"keyHeader"}, Must: "a name of at most 255 bytes"})
	}
	if s.Stream != nil {
		wrong = append(wrong, decode.Within("stream", s.Stream.validate())...)
	}
	return slices.Concat(wrong, s.Login.Validate(), s.validateTLS())
}

func (s Source) validateURL() []decode.FieldError {
	path := []string{"url"}
	if s.URL == "" {
		return []decode.FieldError{{Path: path, Message: "is required"}}
	}
	if decode.HasVariables(s.URL) {
		return nil // checked when it is opened
	}
	if _, err := parseURL(s.URL); err != nil {
		return []decode.FieldError{{Path: path, Message: err.Error()}}
	}
	return nil
}

func (s Source) validateTLS() []decode.FieldError {
	wrong := s.TLS.Validate()
	if s.TLS != (TLS{}) && strings.HasPrefix(s.URL, "amqp://") {
		wrong = append(wrong, decode.FieldError{
			Path: []string{"tls"}, Message: "is set, but url is amqp://: write amqps://, or leave tls out",
		})
	}
	return wrong
}

func (s Stream) validate() []decode.FieldError {
	var wrong []decode.FieldError
	if _, err := parseStart(cmp.Or(s.Start, DefaultStart)); err != nil && !decode.HasVariables(s.Start) {
		wrong = append(wrong, decode.FieldError{Path: []string{"start"}, Must: startForms})
	}
	if !slices.Contains([]string{"", earliest, latest, stop}, s.Missing) {
		wrong = append(wrong, decode.FieldError{Path: []string{"missing"}, Must: missingForms})
	}
	return wrong
}

// Print shows the fields as they are written, without the password.
func (s Source) Print() decode.Fields {
	fields := slices.Concat(
		decode.Pairs("url", decode.WithoutPasswords(s.URL)),
		s.Login.Print(),
		decode.Pairs("queue", s.Queue, "prefetch", s.Prefetch, "keyHeader", decode.TextOrNil(s.KeyHeader)),
	)
	if s.Stream != nil {
		fields = append(fields, decode.Pairs("stream", decode.Pairs(
			"start", cmp.Or(s.Stream.Start, DefaultStart),
			"missing", cmp.Or(s.Stream.Missing, DefaultMissing),
		))...)
	}
	return append(fields, s.TLS.Print()...)
}
