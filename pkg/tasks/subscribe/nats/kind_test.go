package nats_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/shardctl/shardctl/pkg/tasks/subscribe/nats"
)

func TestValidate(t *testing.T) {
	good := nats.Source{Servers: []string{"h:4222"}, Stream: "S"}
	for name, c := range map[string]struct {
		change func(*nats.Source)
		wants  []string
	}{
		"stream": {func(*nats.Source) {}, nil},
		"plain":  {func(s *nats.Source) { s.Stream, s.Subject = "", "a.*.>" }, nil},
		"all": {func(s *nats.Source) {
			*s = nats.Source{
				Servers: []string{"a:1, b:2", "tls://me:s3cret@c"}, Stream: "S", Subject: "a.b", Consumer: "c",
				Start: "2026-01-31T12:00:00Z", Missing: nats.Latest, Login: nats.Login{NKeyFile: "n"},
				TLS: nats.TLS{CAFile: "ca", CertFile: "c", KeyFile: "k"},
			}
		}, nil},
		"variables": {func(s *nats.Source) {
			s.Servers, s.Stream, s.Subject, s.Start = []string{"$(NATS)"}, "$(A)", "$(B)", "$(C)"
		}, nil},
		"empty": {func(s *nats.Source) {
			*s = nats.Source{}
		}, []string{"stream: is required, or subject", "servers: is required"}},
		"texts": {func(s *nats.Source) {
			s.Stream, s.Subject, s.Consumer, s.Start, s.Missing = "a.b", "a..b", "a b", "now", "skip"
			s.Servers = []string{"h", "http://me:s3cret@h", "h:99999", ","}
		}, []string{
			"stream: must be", "subject: must be", "consumer: must be", "start: must be", "missing: must be",
			"servers.1: is not the address", "servers.2: is not", "servers.3: is not",
		}},
		"position of a subject": {func(s *nats.Source) {
			s.Stream, s.Subject, s.Start, s.Missing, s.Consumer = "", "a", nats.Latest, nats.Stop, "c"
		}, []string{"consumer: is set without stream", "start: is set without", "missing: is set without"}},
		"two logins": {func(s *nats.Source) {
			s.Login = nats.Login{CredsFile: "c", User: "u", Password: "s3cret", PasswordFile: "f"}
		}, []string{"user: is set together with credsFile", "passwordFile: is set together with password"}},
		"no user":     {func(s *nats.Source) { s.Login.Password = "s3cret" }, []string{"password: is set without user"}},
		"no password": {func(s *nats.Source) { s.Login.User = "u" }, []string{"user: has no password"}},
		"one file":    {func(s *nats.Source) { s.TLS.CertFile = "c" }, []string{"tls.keyFile: is required with certFile"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := good
			c.change(&s)
			wrong := s.Validate()
			if len(wrong) != len(c.wants) {
				t.Errorf("got %v, want %d errors", wrong, len(c.wants))
			}
			said := fmt.Sprint(wrong)
			for _, want := range c.wants {
				if !strings.Contains(said, want) {
					t.Errorf("got %v, want %q", wrong, want)
				}
			}
			if strings.Contains(said, "s3cret") {
				t.Errorf("an error shows the password: %v", wrong)
			}
		})
	}
}

func TestPrintHidesPasswords(t *testing.T) {
	s := nats.Source{
		Servers: []string{"me:s3cret@a:1", "nats://me:s3cret@b"}, Stream: "S", Subject: "a",
		Login: nats.Login{User: "u", Password: "s3cret"}, TLS: nats.TLS{CAFile: "ca"},
	}
	shown := fmt.Sprint(s.Print())
	for _, part := range []string{
		"[me:xxxxx@a:1 nats://me:xxxxx@b]", "{start earliest}", "{missing stop}", "{caFile ca}", "{password xxxxx}",
	} {
		if !strings.Contains(shown, part) {
			t.Errorf("got %s, want it to have %s", shown, part)
		}
	}
	if strings.Contains(shown, "s3cret") {
		t.Errorf("shows a password: %s", shown)
	}
	if got := s.Topic(); got != "S:a" {
		t.Errorf("topic %s", got)
	}
	s.Login.Password = "$(PASSWORD)"
	if shown = fmt.Sprint(s.Print()); !strings.Contains(shown, "{password $(PASSWORD)}") {
		t.Errorf("got %s, want the variable", shown)
	}
}
