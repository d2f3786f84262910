package amqp

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strconv"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/shardctl/shardctl/pkg/tasks/decode"
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
	errURL = errors.New("is not the URL of a broker, must be amqp://USER:PASSWORD@HOST:PORT/VHOST or amqps://…, with %XX " +
		"for special characters")
	errHeartbeat = errors.New("turns heartbeats off, by which a broker that hangs is noticed: leave heartbeat out, or set " +
		"heartbeat=SECONDS")
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
	if beat := u.Query().Get("heartbeat"); beat != "" {
		if seconds, err := strconv.Atoi(beat); err != nil || seconds <= 0 {
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
	if a.login, err = s.Login.authentication(uri); err != nil || s.TLS == (TLS{}) {
		return a, err
	}
	if uri.Scheme != "amqps" {
		return a, errors.New("amqp.tls: is set, but amqp.url is not amqps://: write amqps://, or leave tls out")
	}
	a.tls, err = s.TLS.config()
	return a, err
}

// authentication is nil where the URL's is to be used.
func (l Login) authentication(uri amqp091.URI) ([]amqp091.Authentication, error) {
	if l == (Login{}) {
		return nil, nil
	}
	plain := uri.PlainAuth()
	plain.Username = cmp.Or(l.User, plain.Username)
	plain.Password = cmp.Or(l.Password, plain.Password)
	if l.PasswordFile != "" {
		password, err := decode.ReadFile(l.PasswordFile)
		if err != nil {
			return nil, fmt.Errorf("amqp.passwordFile: %w", err)
		}
		plain.Password = password
	}
	return []amqp091.Authentication{plain}, nil
}

// config reads the files. They are read anew at each Open, as certificates are renewed.
func (t TLS) config() (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if t.CAFile != "" {
		pem, err := os.ReadFile(t.CAFile)
		if err != nil {
			return nil, fmt.Errorf("amqp.tls.caFile: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("amqp.tls.caFile: %s has no certificate in PEM form", t.CAFile)
		}
	}
	if t.CertFile != "" || t.KeyFile != "" {
		pair, err := tls.LoadX509KeyPair(t.CertFile, t.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("amqp.tls: certFile and keyFile: %w", err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}
