package mqtt

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/shardctl/shardctl/pkg/tasks/decode"
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

// Login is who connects.
type Login struct {
	User, Password string
	PasswordFile   string // its content is the password, read at each Open
}

// TLS are PEM files for mqtts.
type TLS struct {
	CAFile            string // authorities to trust; empty: the system's
	CertFile, KeyFile string // of the client; empty: none
}

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
	s.Servers = append([]string(nil), s.Servers...)
	type text struct {
		field string
		text  *string
	}
	texts := []text{
		{"mqtt.topic", &s.Filter},
		{"mqtt.clientID", &s.ClientID},
		{"mqtt.user", &s.Login.User},
		{"mqtt.password", &s.Login.Password},
		{"mqtt.passwordFile", &s.Login.PasswordFile},
		{"mqtt.tls.caFile", &s.TLS.CAFile},
		{"mqtt.tls.certFile", &s.TLS.CertFile},
		{"mqtt.tls.keyFile", &s.TLS.KeyFile},
	}
	for i := range s.Servers {
		texts = append(texts, text{"mqtt.servers", &s.Servers[i]})
	}
	for _, t := range texts {
		value, err := session.Expand(t.field, *t.text)
		if err != nil {
			return s, fmt.Errorf("subscribe to a topic: %w", err)
		}
		*t.text = value
	}
	if s.Login.PasswordFile != "" {
		password, err := decode.ReadFile(s.Login.PasswordFile)
		if err != nil {
			return s, fmt.Errorf("mqtt.passwordFile: %w", err)
		}
		s.Login.Password = password
	}
	s.ClientID = cmp.Or(s.ClientID, "shardctl:"+session.Group+":"+session.Name)
	s.SessionExpiry = cmp.Or(s.SessionExpiry, DefaultSessionExpiry)
	s.KeepAlive = cmp.Or(s.KeepAlive, DefaultKeepAlive)
	s.Servers = split(s.Servers)
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
