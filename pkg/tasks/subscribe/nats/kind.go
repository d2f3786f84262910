package nats

import (
	"cmp"
	_ "embed"
	"regexp"
	"strconv"

	"github.com/shardctl/shardctl/pkg/tasks/decode"
	"github.com/shardctl/shardctl/pkg/tasks/subscribe"
)

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
		Servers:  serversIn(n.Get("servers"), r),
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
		TLS: TLS{
			CAFile:   r.Text(n.At("tls", "caFile"), ""),
			CertFile: r.Text(n.At("tls", "certFile"), ""),
			KeyFile:  r.Text(n.At("tls", "keyFile"), ""),
		},
	}
}

// serversIn reads a list of addresses, or one text.
func serversIn(n *decode.Node, r *decode.Reader) []string {
	if n != nil && n.Shape == decode.Scalar {
		return []string{r.Text(n, "")}
	}
	return r.TextList(n)
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

// index is a step of a path into a list.
func index(i int) string { return strconv.Itoa(i) }
