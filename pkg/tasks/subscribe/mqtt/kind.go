package mqtt

import (
	"cmp"
	_ "embed"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/shardctl/shardctl/pkg/tasks/decode"
	"github.com/shardctl/shardctl/pkg/tasks/internal/access"
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
		Servers:       r.TextOrList(n.Get("servers")),
		Filter:        r.Text(n.Get("topic"), ""),
		QoS:           DefaultQoS,
		ClientID:      r.Text(n.Get("clientID"), ""),
		SessionExpiry: r.Positive(n.Get("sessionExpiry"), DefaultSessionExpiry, ""),
		KeepAlive:     r.Positive(n.Get("keepAlive"), DefaultKeepAlive, ""),
		Login:         access.ParseLogin(n, r),
		TLS:           access.ParseTLS(n.Get("tls"), r),
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
	for _, server := range access.Addresses(s.Servers) {
		if _, err := parseServer(server); err != nil && !decode.HasVariables(server) {
			say("servers", err.Error())
		}
	}
	switch {
	case s.Filter == "":
		say("topic", "is required")
	case !decode.HasVariables(s.Filter) && !isFilter(s.Filter):
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
	return slices.Concat(wrong, s.Login.ValidatePassword(), s.TLS.Validate())
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
		if strings.Contains(level, "#") && (level != "#" || i < len(levels)-1) ||
			strings.Contains(level, "+") && level != "+" {
			return false
		}
	}
	return len(filter) <= 65535 && !strings.ContainsRune(filter, 0)
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
	)
	return slices.Concat(fields, s.Login.Print(), s.TLS.Print())
}
