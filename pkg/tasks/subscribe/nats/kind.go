package nats

import (
	"cmp"
	_ "embed"
	"slices"
	"strconv"

	"github.com/shardctl/shardctl/pkg/tasks/decode"
	"github.com/shardctl/shardctl/pkg/tasks/internal/access"
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
