package mqtt

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

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
