package redis

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/shardctl/shardctl/pkg/tasks/internal/access"
	"github.com/shardctl/shardctl/pkg/tasks/subscribe"
)

// answerWithin is how long one request may take, besides the time that it waits for entries.
const answerWithin = 5 * time.Second

// settings are a source's fields with variables replaced.
type settings struct {
	url, stream, group, start, field string
	login                            Login
	tls                              TLS
}

func (s Source) settings(session subscribe.Session) (settings, error) {
	e := access.NewExpander(Name, session.Expand)
	set := settings{
		url:    e.Text("url", s.URL),
		stream: e.Text("stream", s.Stream),
		group:  e.Text("group", cmp.Or(s.Group, "shardctl."+session.Group+"."+session.Name)),
		start:  e.Text("start", cmp.Or(s.Start, DefaultStart)),
		field:  e.Text("field", cmp.Or(s.Field, DefaultField)),
		login:  e.Login("", s.Login),
		tls:    e.TLS(s.TLS),
	}
	switch {
	case e.Err() != nil:
		return set, e.Err()
	case set.stream == "":
		return set, fmt.Errorf("redis.stream: %s is empty", s.Stream)
	case set.start != Earliest && set.start != Latest && !isID(set.start):
		return set, fmt.Errorf("redis.start: what %s holds is neither earliest, latest nor the ID of an entry", s.Start)
	case set.field == keyField || set.field == typeField:
		return set, fmt.Errorf("redis.field: what %s holds is key or type, which have a meaning of their own", s.Field)
	}
	return set, nil
}

// parseURL reads a URL. Its errors may quote what it holds: no one is to see them.
func parseURL(text string) (*redis.Options, error) {
	if !strings.HasPrefix(text, "redis://") && !strings.HasPrefix(text, "rediss://") {
		return nil, errors.New(notURL)
	}
	return redis.ParseURL(text)
}

// options are those of a client for one subscription.
func (set settings) options() (*redis.Options, error) {
	o, err := parseURL(set.url)
	if err != nil {
		// Not quoted: it may hold a password.
		return nil, errors.New("redis.url: " + notURL)
	}
	password, err := set.login.ReadPassword(Name)
	if err != nil {
		return nil, err
	}
	o.Username, o.Password = cmp.Or(set.login.User, o.Username), cmp.Or(password, o.Password)
	if err := set.secure(o); err != nil {
		return nil, err
	}
	o.Protocol = 2
	o.DisableIdentity = true
	o.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	// A request whose answer was lost may have been carried out: entries would be passed over if it were sent again.
	o.MaxRetries, o.DialerRetries = -1, 1
	o.DialTimeout, o.ReadTimeout, o.WriteTimeout = answerWithin, answerWithin, answerWithin
	o.ContextTimeoutEnabled = true
	// One waits for entries, one acknowledges, one asks for the lag or publishes.
	o.PoolSize, o.MinIdleConns, o.MaxIdleConns = 3, 0, 2
	o.ReadBufferSize, o.WriteBufferSize = 16<<10, 4<<10
	return o, nil
}

// secure sets the certificates.
func (set settings) secure(o *redis.Options) error {
	if set.tls == (TLS{}) {
		return nil
	}
	if o.TLSConfig == nil {
		return errors.New("redis.tls: is set, but a URL that begins with redis:// uses no TLS: write rediss://")
	}
	config, err := set.tls.Config(Name)
	if err != nil {
		return err
	}
	config.ServerName = o.TLSConfig.ServerName
	o.TLSConfig = config
	return nil
}
