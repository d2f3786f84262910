package amqp

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"

	amqp091 "github.com/rabbitmq/amqp091-go"
)

// address is a broker and how to reach it.
type address struct {
	url    string // with the password: never shown
	broker string // HOST:PORT, for errors
	vhost  string
	login  []amqp091.Authentication // nil: as the URL says
	tls    *tls.Config              // nil: as the URL says
}

var (
	errURL = errors.New("is not the URL of a broker, must be amqp://USER:PASSWORD@HOST:PORT/VHOST or amqps://…, with " +
		"%XX for special characters")
	errHeartbeat = errors.New("turns heartbeats off, by which a broker that hangs is noticed: leave heartbeat out, or " +
		"set heartbeat=SECONDS")
)

// parseURL reads a URL. Its errors do not quote it, as it may hold a password.
func parseURL(text string) (amqp091.URI, error) {
	uri, err := amqp091.ParseURI(text)
	if err != nil {
		return uri, errURL
	}
	u, err := url.Parse(text)
	if err != nil {
		return uri, errURL
	}
	if every := u.Query().Get("heartbeat"); every != "" {
		if seconds, err := strconv.Atoi(every); err != nil || seconds <= 0 {
			return uri, errHeartbeat
		}
	}
	return uri, nil
}

// address reads the source's own fields, with variables replaced.
func (s Source) address() (address, error) {
	uri, err := parseURL(s.URL)
	if err != nil {
		return address{}, fmt.Errorf("amqp.url: %w", err)
	}
	a := address{url: s.URL, broker: net.JoinHostPort(uri.Host, strconv.Itoa(uri.Port)), vhost: uri.Vhost}
	if a.login, err = authentication(s.Login, uri); err != nil || s.TLS == (TLS{}) {
		return a, err
	}
	if uri.Scheme != "amqps" {
		return a, errors.New("amqp.tls: is set, but amqp.url is not amqps://: write amqps://, or leave tls out")
	}
	a.tls, err = s.TLS.Config(Name)
	return a, err
}

// authentication is nil where the URL's is to be used.
func authentication(l Login, uri amqp091.URI) ([]amqp091.Authentication, error) {
	if l == (Login{}) {
		return nil, nil
	}
	password, err := l.ReadPassword(Name)
	if err != nil {
		return nil, err
	}
	plain := uri.PlainAuth()
	plain.Username, plain.Password = cmp.Or(l.User, plain.Username), cmp.Or(password, plain.Password)
	return []amqp091.Authentication{plain}, nil
}
