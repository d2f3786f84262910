// Package mqtt is the source of messages from a broker of MQTT 5.
//
// The broker keeps a session for the task: what is published while no one is connected waits in it. The next owner
// takes the session over by its client ID, and the broker disconnects the one before. An acknowledgement carries no
// fencing token. The token that the receiver gets with each message is the guarantee.
package mqtt

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/shardctl/shardctl/pkg/tasks/decode"
	"github.com/shardctl/shardctl/pkg/tasks/internal/access"
	"github.com/shardctl/shardctl/pkg/tasks/subscribe"
)

// Name is the field of a task that chooses this source.
const Name = "mqtt"

// What fields are when left out. The zero QoS is 0.
const (
	DefaultQoS           = 1
	DefaultSessionExpiry = time.Hour
	DefaultKeepAlive     = 5 * time.Second
)

// Source subscribes to a topic or a filter. Texts are as written: $(NAME) in them is replaced at each Open.
type Source struct {
	Servers       []string // URLs; one may be several with commas between
	Filter        string
	QoS           int           // 0, 1 or 2
	ClientID      string        // empty: shardctl:GROUP:TASK
	SessionExpiry time.Duration // how long the broker keeps the session; 0: the default
	KeepAlive     time.Duration // 0: the default
	Login         Login
	TLS           TLS
}

// Login is who connects: User, with Password or with PasswordFile, whose content is the password and is read at each
// Open.
type Login = access.Login

// TLS is how mqtts is secured: by CAFile, the authorities to trust (empty: the system's), and by CertFile and KeyFile
// of the client, both or neither. All are names of PEM files, which are read at each Open.
type TLS = access.TLS

var errServer = errors.New(serverForm)

// Kind is "mqtt".
func (s Source) Kind() string { return Name }

// Topic is the filter.
func (s Source) Topic() string { return s.Filter }

// Open connects to the first server that answers, takes the session over and subscribes.
func (s Source) Open(ctx context.Context, session subscribe.Session) (subscribe.Subscription, error) {
	s, err := s.expand(session)
	if err != nil {
		return nil, err
	}
	var errs []error
	for _, server := range s.Servers {
		sub, err := s.open(ctx, server, session)
		if err == nil {
			return sub, nil
		}
		errs = append(errs, fmt.Errorf("mqtt broker %s, topic %q: %w", server, s.Filter, err))
		if ctx.Err() != nil {
			break
		}
	}
	return nil, errors.Join(errs...)
}

// expand replaces the variables and fills in defaults. What is wrong is not quoted.
func (s Source) expand(session subscribe.Session) (Source, error) {
	e := access.NewExpander(Name, session.Expand)
	s.Servers = access.Addresses(e.Texts("servers", s.Servers))
	s.Filter, s.ClientID = e.Text("topic", s.Filter), e.Text("clientID", s.ClientID)
	s.Login, s.TLS = e.Login("", s.Login), e.TLS(s.TLS)
	if err := e.Err(); err != nil {
		return s, fmt.Errorf("subscribe to a topic: %w", err)
	}
	var err error
	if s.Login.Password, err = s.Login.ReadPassword(Name); err != nil {
		return s, err
	}
	s.ClientID = cmp.Or(s.ClientID, "shardctl:"+session.Group+":"+session.Name)
	s.SessionExpiry = cmp.Or(s.SessionExpiry, DefaultSessionExpiry)
	s.KeepAlive = cmp.Or(s.KeepAlive, DefaultKeepAlive)
	switch {
	case len(s.Servers) == 0:
		return s, errors.New("mqtt.servers: is empty, " + serverForm)
	case s.Filter == "" || !isFilter(s.Filter):
		return s, errors.New("mqtt.topic: must be " + filterForm)
	}
	for _, server := range s.Servers {
		if _, err := parseServer(server); err != nil {
			return s, fmt.Errorf("mqtt.servers: %w", err)
		}
	}
	return s, nil
}

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
