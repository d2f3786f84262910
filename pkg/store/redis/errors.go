package redis

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/internal/storeuri"
)

// advice says what to do about answers of a server that another try does not change. What is not in it is unavailable.
var advice = []struct{ answer, text string }{
	{"WRONGPASS", "wrong user or password: correct the URI"},
	{"NOAUTH", "a password is required: write it into the URI"},
	{"without any password configured", "the server has no password, and the URI has one: take it out"},
	{"NOPERM", "the user lacks rights: grant those in docs/stores/redis.md"},
	{"The user executing the script", "the user lacks rights: grant those in docs/stores/redis.md"},
	{"ACL failure in script", "the user lacks rights: grant those in docs/stores/redis.md"},
	{"DB index is out of range", "there is no database of this number: name another one"},
	{"SELECT is not allowed in cluster mode", "a Redis cluster has database 0 only: use redis+cluster://"},
	{"This instance has cluster support disabled", "the server is no cluster: use redis://"},
	{"unknown command", "this service lacks a command that the store needs"},
	{"Unknown Redis command", "this service lacks a command that the store needs"},
}

// adviceFor is what to do about an error; empty: to try again.
func adviceFor(err error) string {
	if answer, ok := errors.AsType[redis.Error](err); ok {
		for _, a := range advice {
			if strings.Contains(answer.Error(), a.answer) {
				return a.text
			}
		}
		return ""
	}
	var authority x509.UnknownAuthorityError
	var host x509.HostnameError
	var certificate x509.CertificateInvalidError
	var verification *tls.CertificateVerificationError
	var record tls.RecordHeaderError
	var alert tls.AlertError
	switch {
	case errors.As(err, &authority):
		return "no known authority has signed the server's certificate: name its file by tlsCAFile"
	case errors.As(err, &host):
		return "the server's certificate is for other hosts: name one of them in the URI"
	case errors.As(err, &certificate), errors.As(err, &verification):
		return "the server's certificate is not valid"
	case errors.As(err, &record):
		return "the server does not speak TLS at this port: use redis://, or its port for TLS"
	case errors.As(err, &alert):
		return "the server refuses this client's certificate: name another by tlsCertFile and tlsKeyFile"
	case strings.Contains(err.Error(), "remote error: tls:"):
		return "the server refuses this client's certificate: name it by tlsCertFile and tlsKeyFile"
	}
	return ""
}

func isInvalid(err error) bool { return adviceFor(err) != "" }

// translate makes an error of the driver one of package store's, once, where it comes in. what says what was tried.
func (a *access) translate(what string, err error) error {
	if err == nil {
		return nil
	}
	shown := err
	if clean := storeuri.Scrub(err.Error(), a.secrets); clean != err.Error() {
		shown = errors.New(clean) // by its text only: err has said what it is
	}
	switch todo := adviceFor(err); {
	case errors.Is(shown, store.ErrInvalid), errors.Is(shown, store.ErrSchema), errors.Is(shown, store.ErrUnavailable):
		return fmt.Errorf("%s: %w", what, shown)
	case errors.Is(err, store.ErrSchema):
		return fmt.Errorf("%s: %w: %w", what, store.ErrSchema, shown)
	case errors.Is(err, store.ErrInvalid):
		return fmt.Errorf("%s: %w: %w", what, store.ErrInvalid, shown)
	case todo != "":
		return fmt.Errorf("%s: %w: %s (%w)", what, store.ErrInvalid, todo, shown)
	}
	return fmt.Errorf("%s: %w: %w", what, store.ErrUnavailable, shown)
}
