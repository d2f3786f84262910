package amqp_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/shardctl/shardctl/internal/connect"
	"github.com/shardctl/shardctl/internal/subscribe/amqp"
)

func TestValidate(t *testing.T) {
	good := amqp.Source{URL: "amqp://user:secret@host/vhost", Queue: "orders"}
	with := func(change func(*amqp.Source)) amqp.Source {
		s := good
		change(&s)
		return s
	}
	for name, c := range map[string]struct {
		source amqp.Source
		says   []string
	}{
		"good":    {good, nil},
		"nothing": {amqp.Source{}, []string{"url: is required", "queue: is required"}},
		"variables": {
			amqp.Source{URL: "$(AMQP_URL)", Queue: "$(SHARDCTL_TASK)", Stream: &amqp.Stream{Start: "$(START)"}}, nil,
		},
		"no URL":       {with(func(s *amqp.Source) { s.URL = "http://user:secret@host" }), []string{"url: is not the URL"}},
		"no heartbeat": {with(func(s *amqp.Source) { s.URL += "?heartbeat=0" }), []string{"url: turns heartbeats off"}},
		"long queue":   {with(func(s *amqp.Source) { s.Queue = strings.Repeat("q", 256) }), []string{"queue: must be"}},
		"prefetch":     {with(func(s *amqp.Source) { s.Prefetch = 65536 }), []string{"prefetch: must be"}},
		"start": {
			with(func(s *amqp.Source) { s.Stream = &amqp.Stream{Start: "-1"} }), []string{"stream.start: must be"},
		},
		"missing": {
			with(func(s *amqp.Source) { s.Stream = &amqp.Stream{Missing: "go on"} }),
			[]string{"stream.missing: must be"},
		},
		"two passwords": {
			with(func(s *amqp.Source) { s.Login = connect.Login{Password: "secret", PasswordFile: "/f"} }),
			[]string{"passwordFile: is set together"},
		},
		"no password": {
			with(func(s *amqp.Source) { s.Login = connect.Login{User: "u"} }),
			[]string{"user: has no password"},
		},
		"tls": {
			with(func(s *amqp.Source) { s.TLS = connect.TLS{CertFile: "/c"} }),
			[]string{"tls.keyFile: is required with certFile", "tls: is set, but url is amqp://"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			wrong := c.source.Validate()
			if len(wrong) != len(c.says) {
				t.Fatalf("%v, want %q", wrong, c.says)
			}
			for i, err := range wrong {
				if !strings.HasPrefix(err.Error(), c.says[i]) || strings.Contains(err.Error(), "secret") {
					t.Errorf("%q, want %q", err.Error(), c.says[i])
				}
			}
		})
	}
}

func TestPrintHidesPasswords(t *testing.T) {
	s := amqp.Source{
		URL: "amqp://user:secret@host", Login: connect.Login{User: "u", Password: "secret"}, Queue: "orders",
		Stream: &amqp.Stream{}, TLS: connect.TLS{CAFile: "/ca"},
	}
	printed := fmt.Sprint(s.Print())
	for _, part := range []string{"orders", "earliest", "stop", "/ca", "user:xxxxx@"} {
		if !strings.Contains(printed, part) {
			t.Errorf("%s has no %s", printed, part)
		}
	}
	if strings.Contains(printed, "secret") {
		t.Errorf("%s shows a password", printed)
	}
	names := []string{}
	for _, f := range s.Print() {
		names = append(names, f.Name)
	}
	if !slices.Contains(names, "prefetch") {
		t.Errorf("%v has no prefetch", names)
	}
}
