package redis

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/shardctl/shardctl/pkg/tasks/decode"
	"github.com/shardctl/shardctl/pkg/tasks/subscribe"
)

// answerWithin is how long one request may take, besides the time that it waits for entries.
const answerWithin = 5 * time.Second

// settings are a source's fields with variables replaced.
type settings struct {
	url, stream, group, start, field string
	user, password, passwordFile     string
	caFile, certFile, keyFile        string
}

func (s Source) settings(session subscribe.Session) (settings, error) {
	group := cmp.Or(s.Group, "shardctl."+session.Group+"."+session.Name)
	var set settings
	var errs []error
	for _, f := range []struct {
		name, text string
		to         *string
	}{
		{"url", s.URL, &set.url},
		{"stream", s.Stream, &set.stream},
		{"group", group, &set.group},
		{"start", cmp.Or(s.Start, DefaultStart), &set.start},
		{"field", cmp.Or(s.Field, DefaultField), &set.field},
		{"user", s.Login.User, &set.user},
		{"password", s.Login.Password, &set.password},
		{"passwordFile", s.Login.PasswordFile, &set.passwordFile},
		{"tls.caFile", s.TLS.CAFile, &set.caFile},
		{"tls.certFile", s.TLS.CertFile, &set.certFile},
		{"tls.keyFile", s.TLS.KeyFile, &set.keyFile},
	} {
		var err error
		if *f.to, err = session.Expand(Name+"."+f.name, f.text); err != nil {
			errs = append(errs, err)
		}
	}
	switch {
	case len(errs) > 0:
		return set, errors.Join(errs...)
	case set.stream == "":
		return set, fmt.Errorf("redis.stream: %s is empty", s.Stream)
	case set.start != Earliest && set.start != Latest && !isID(set.start):
		return set, fmt.Errorf("redis.start: what %s holds is neither earliest, latest nor the ID of an entry", s.Start)
	case set.field == keyField || set.field == typeField:
		return set, fmt.Errorf("redis.field: what %s holds is key or type, which have a meaning of their own", s.Field)
	}
	return set, nil
}

// parseURL reads a URL. Its errors may quote what it holds: nobody is to see them.
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
	if set.passwordFile != "" {
		if set.password, err = decode.ReadFile(set.passwordFile); err != nil {
			return nil, fmt.Errorf("redis.passwordFile: %w", err)
		}
	}
	o.Username, o.Password = cmp.Or(set.user, o.Username), cmp.Or(set.password, o.Password)
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
	if set.caFile == "" && set.certFile == "" && set.keyFile == "" {
		return nil
	}
	if o.TLSConfig == nil {
		return errors.New("redis.tls: is set, but a URL that begins with redis:// uses no TLS: write rediss://")
	}
	if set.caFile != "" {
		pem, err := os.ReadFile(set.caFile)
		if err != nil {
			return fmt.Errorf("redis.tls.caFile: %w", err)
		}
		o.TLSConfig.RootCAs = x509.NewCertPool()
		if !o.TLSConfig.RootCAs.AppendCertsFromPEM(pem) {
			return fmt.Errorf("redis.tls.caFile: %s holds no PEM certificate", set.caFile)
		}
	}
	if set.certFile != "" || set.keyFile != "" {
		pair, err := tls.LoadX509KeyPair(set.certFile, set.keyFile)
		if err != nil {
			return fmt.Errorf("redis.tls.certFile: %w", err)
		}
		o.TLSConfig.Certificates = []tls.Certificate{pair}
	}
	return nil
}
