// Package mqtt is the source of messages from a broker of MQTT 5.
//
// The broker keeps a session for the task: what is published while no one is connected waits in it. The next owner
// takes the session over by its client ID, and the broker disconnects the one before. An acknowledgement carries no
// fencing token. The token that the receiver gets with each message is the guarantee.
package mqtt

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/shardctl/shardctl/internal/connect"
	"github.com/shardctl/shardctl/internal/decode"
	"github.com/shardctl/shardctl/internal/field"
	"github.com/shardctl/shardctl/internal/subscribe"
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
	Login         connect.Login
	TLS           connect.TLS
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
	err := s.fields().Expand(Name, session.Expand)
	if err != nil {
		return s, fmt.Errorf("subscribe to a topic: %w", err)
	}
	s.ClientID = cmp.Or(s.ClientID, "shardctl:"+session.Group+":"+session.Name)
	s.Login.Password, err = s.Login.ReadPassword(Name)
	return s, err
}

// fields are what a configuration says of a source.
func (s *Source) fields() field.List {
	return slices.Concat(field.List{
		{
			Name: "servers", Value: field.Texts{
				To: &s.Servers, Required: "is required", Form: "mqtt://HOST:PORT", Valid: isServer, Message: serverForm,
			},
			Doc: "`mqtt://HOST:PORT` or `mqtts://HOST:PORT`, tried in turn: a list, or text with commas between.",
		},
		{
			Name: "topic", Value: field.Text{To: &s.Filter, Required: "is required", Valid: isFilter, Must: filterForm},
			Doc: "A topic or a filter, such as `sensors/+/temperature`.",
		},
		{
			Name: "qos", Value: field.Number{To: &s.QoS, Default: DefaultQoS, Max: 2, Must: "0, 1 or 2"},
			Doc: "Quality of service. `0`: what is published while no one is connected is gone.",
		},
		{
			Name: "clientID", Value: field.Text{To: &s.ClientID}, Doc: "The name of the session.",
			Unset: "`shardctl:GROUP:TASK`",
		},
		{
			Name: "sessionExpiry", Value: field.Duration{
				To: &s.SessionExpiry, Default: DefaultSessionExpiry, Min: time.Second, Max: 876_000 * time.Hour,
			},
			Doc: "How long the broker keeps the session while no one is connected, from `1s`.",
		},
		{
			Name: "keepAlive", Value: field.Duration{
				To: &s.KeepAlive, Default: DefaultKeepAlive, Min: time.Second, Max: 5 * time.Minute,
			},
			Doc: "How often the broker is asked whether it is there while nothing comes, from `1s` to `5m`.",
		},
	}, s.Login.Fields(""), field.List{s.TLS.Field("Of `mqtts://`.")})
}

// Kind reads sources from a configuration.
var Kind = field.Kind(Name, "Receives the messages of an MQTT topic.", (*Source).fields,
	func(s *Source, _ *decode.Node) subscribe.Source { return *s })

// Print shows the fields as they are written.
func (s Source) Print() decode.Fields { return s.fields().Print() }

// Validate checks the servers, the topic, the times, the login and the files.
func (s Source) Validate() []decode.FieldError {
	return slices.Concat(s.fields().Check(), s.Login.ValidatePassword(), s.TLS.Validate())
}

const (
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

func isServer(text string) bool {
	_, err := parseServer(text)
	return err == nil
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
