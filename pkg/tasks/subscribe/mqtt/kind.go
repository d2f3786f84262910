package mqtt

import (
	"cmp"
	_ "embed"
	"net/url"
	"regexp"
	"strings"
	"time"

	"github.com/shardctl/shardctl/pkg/tasks/decode"
	"github.com/shardctl/shardctl/pkg/tasks/subscribe"
)

//go:embed schema.json
var schema string

// Kind reads sources from a configuration.
type Kind struct{}

// Name is "mqtt".
func (Kind) Name() string { return Name }

// Schema is that of the mapping with servers, topic and so on.
func (Kind) Schema() string { return schema }

// Parse reads a Source.
func (Kind) Parse(n *decode.Node, r *decode.Reader) subscribe.Source {
	r.CheckStart(n, nil)
	s := Source{
		Servers:       r.TextList(n.Get("servers")),
		Filter:        r.Text(n.Get("topic"), ""),
		QoS:           DefaultQoS,
		ClientID:      r.Text(n.Get("clientID"), ""),
		SessionExpiry: r.Positive(n.Get("sessionExpiry"), DefaultSessionExpiry, ""),
		KeepAlive:     r.Positive(n.Get("keepAlive"), DefaultKeepAlive, ""),
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
	if servers := n.Get("servers"); servers != nil && servers.Shape == decode.Scalar {
		s.Servers = []string{r.Text(servers, "")}
	}
	if qos := n.Get("qos"); qos != nil {
		s.QoS = r.Count(qos)
	}
	return s
}

// Validate checks the servers, the topic, the times, the login and the files.
func (s Source) Validate() []decode.FieldError {
	var wrong []decode.FieldError
	say := func(field, words string) {
		wrong = append(wrong, decode.FieldError{Path: []string{field}, Message: words})
	}
	must := func(field, words string) {
		wrong = append(wrong, decode.FieldError{Path: []string{field}, Must: words})
	}
	if len(s.Servers) == 0 {
		say("servers", "is required")
	}
	for _, server := range split(s.Servers) {
		if _, err := parseServer(server); err != nil && !variable(server) {
			say("servers", err.Error())
		}
	}
	switch {
	case s.Filter == "":
		say("topic", "is required")
	case !variable(s.Filter) && !isFilter(s.Filter):
		must("topic", filterForm)
	}
	if s.QoS < 0 || s.QoS > 2 {
		must("qos", "0, 1 or 2")
	}
	if s.KeepAlive != 0 && (s.KeepAlive < time.Second || s.KeepAlive > 5*time.Minute) {
		must("keepAlive", "from 1s to 5m")
	}
	if s.SessionExpiry != 0 && (s.SessionExpiry < time.Second || s.SessionExpiry > mostExpiry) {
		must("sessionExpiry", "from 1s to 876000h")
	}
	if s.Login.Password != "" && s.Login.PasswordFile != "" {
		say("passwordFile", "is set together with password: use one of them")
	}
	if (s.TLS.CertFile == "") != (s.TLS.KeyFile == "") {
		say("tls", "has one of certFile and keyFile, must have both or neither")
	}
	return wrong
}

const (
	mostExpiry = 876_000 * time.Hour
	filterForm = "a topic, or a filter in which + is one whole level and # the last one, of at most 65535 bytes"
	serverForm = "must be mqtt://HOST:PORT or mqtts://HOST:PORT, without user and password"
)

// isFilter says whether the broker may be asked for it.
func isFilter(filter string) bool {
	levels := strings.Split(filter, "/")
	for i, level := range levels {
		if strings.Contains(level, "#") && (level != "#" || i < len(levels)-1) || strings.Contains(level, "+") && level != "+" {
			return false
		}
	}
	return len(filter) <= 65535 && !strings.ContainsRune(filter, 0)
}

// split is a list whose items may have commas between.
func split(list []string) []string {
	var all []string
	for _, text := range list {
		for item := range strings.SplitSeq(text, ",") {
			if item = strings.TrimSpace(item); item != "" {
				all = append(all, item)
			}
		}
	}
	return all
}

// parseServer reads a URL. Its errors do not quote it, as it may hold a password.
func parseServer(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "mqtt" && u.Scheme != "mqtts" || u.Hostname() == "" || u.User != nil {
		return nil, errServer
	}
	if u.Port() == "" {
		u.Host = u.Hostname() + ":" + map[string]string{"mqtt": "1883", "mqtts": "8883"}[u.Scheme]
	}
	return u, nil
}

// variable says whether a text is only known when the source is opened.
func variable(text string) bool { return strings.Contains(text, "$(") }

var variableOnly = regexp.MustCompile(`^\$\([^)]*\)$`)

// hidden is a password as it is shown. A reference to a variable is none.
func hidden(password string) any {
	if password == "" || variableOnly.MatchString(password) {
		return decode.TextOrNil(password)
	}
	return decode.Masked
}

// Print shows the fields as they are written.
func (s Source) Print() decode.Fields {
	servers := make([]string, len(s.Servers))
	for i, server := range s.Servers {
		servers[i] = decode.WithoutPasswords(server)
	}
	fields := decode.Pairs(
		"servers", servers,
		"topic", s.Filter,
		"qos", s.QoS,
		"clientID", decode.TextOrNil(s.ClientID),
		"sessionExpiry", cmp.Or(s.SessionExpiry, DefaultSessionExpiry),
		"keepAlive", cmp.Or(s.KeepAlive, DefaultKeepAlive),
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
