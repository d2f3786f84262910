package nats_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	natsio "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nkeys"

	"github.com/shardctl/shardctl/internal/connect"
	"github.com/shardctl/shardctl/internal/subscribe"
	"github.com/shardctl/shardctl/internal/subscribe/nats"
	"github.com/shardctl/shardctl/internal/subscribe/subscribetest"
	"github.com/shardctl/shardctl/test/testbroker"
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
				Start: "2026-01-31T12:00:00Z", Missing: subscribe.Latest, Login: nats.Login{NKeyFile: "n"},
				TLS: connect.TLS{CAFile: "ca", CertFile: "c", KeyFile: "k"},
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
			s.Stream, s.Subject, s.Start, s.Missing, s.Consumer = "", "a", subscribe.Latest, subscribe.Stop, "c"
		}, []string{"consumer: is set without stream", "start: is set without", "missing: is set without"}},
		"two logins": {func(s *nats.Source) {
			s.Login = nats.Login{Login: connect.Login{User: "u", Password: "s3cret", PasswordFile: "f"}, CredsFile: "c"}
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
		Login: nats.Login{Login: connect.Login{User: "u", Password: "s3cret"}}, TLS: connect.TLS{CAFile: "ca"},
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

func TestLogin(t *testing.T) {
	pair, err := nkeys.CreateUser()
	if err != nil {
		t.Fatal(err)
	}
	public, err := pair.PublicKey()
	if err != nil {
		t.Fatal(err)
	}
	seed, err := pair.Seed()
	if err != nil {
		t.Fatal(err)
	}
	b := testbroker.NATS(t, `authorization: {users: [
		{user: ann, password: s3cret}, {nkey: `+public+`},
		{user: bob, password: other, permissions: {publish: ["x"], subscribe: ["x", "_INBOX.>"]}},
	]}`)
	r := rigAt(t, b, natsio.UserInfo("ann", "s3cret"))
	r.stream(jetstream.StreamConfig{})
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	passwordFile, nkeyFile := file("password", "s3cret\n"), file("nkey", string(seed))
	for name, c := range map[string]struct {
		server string
		login  nats.Login
		wants  []string
	}{
		"field": {b.Addr, nats.Login{Login: connect.Login{User: "ann", Password: "s3cret"}}, nil},
		"file":  {b.Addr, nats.Login{Login: connect.Login{User: "ann", PasswordFile: passwordFile}}, nil},
		"url":   {"nats://ann:s3cret@" + b.Addr, nats.Login{}, nil},
		"nkey":  {b.Addr, nats.Login{NKeyFile: nkeyFile}, nil},
		"none":  {b.Addr, nats.Login{}, []string{"Authorization Violation", "correct the login", b.Addr}},
		"wrong": {
			b.Addr,
			nats.Login{Login: connect.Login{User: "ann", Password: "secret"}},
			[]string{"correct the login", b.Addr},
		},
		"wrong url": {"nats://ann:secret@" + b.Addr, nats.Login{}, []string{"correct the login", b.Addr}},
		"no file": {
			b.Addr,
			nats.Login{Login: connect.Login{User: "ann", PasswordFile: dir + "/x"}},
			[]string{"nats.passwordFile", "no such"},
		},
		"no creds":  {b.Addr, nats.Login{CredsFile: dir + "/x"}, []string{"nats.credsFile", "no such"}},
		"no seed":   {b.Addr, nats.Login{NKeyFile: passwordFile}, []string{"nats.nkeyFile"}},
		"bad token": {b.Addr, nats.Login{TokenFile: passwordFile}, []string{"correct the login", b.Addr}},
		"no rights": {
			b.Addr,
			nats.Login{Login: connect.Login{User: "bob", Password: "other"}},
			[]string{b.Addr, r.name},
		},
		"tls": {
			"tls://" + b.Addr,
			nats.Login{Login: connect.Login{User: "ann", Password: "s3cret"}},
			[]string{"the server has no TLS"},
		},
		"no server":  {"127.0.0.1:1", nats.Login{}, []string{"127.0.0.1:1", "none of the servers answers"}},
		"the second": {"127.0.0.1:1," + b.Addr, nats.Login{Login: connect.Login{User: "ann", Password: "s3cret"}}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			r := *r
			r.Task = subscribetest.Named(t, "shop", "orders")
			r.source.Servers, r.source.Login = []string{c.server}, c.login
			if c.wants == nil {
				r.open(1).Close()
				return
			}
			subscribetest.WantError(t, r.refused(1), c.wants...)
		})
	}
}

// A server that wants TLS, and a certificate of each client.
func TestTLS(t *testing.T) {
	cert, key := testbroker.Certificate(t)
	b := testbroker.NATS(t,
		fmt.Sprintf("tls: {cert_file: %q, key_file: %q, ca_file: %q, verify: true}", cert, key, cert))
	r := rigAt(t, b, natsio.RootCAs(cert), natsio.ClientCert(cert, key))
	r.stream(jetstream.StreamConfig{})
	for name, c := range map[string]struct {
		tls   connect.TLS
		wants []string
	}{
		"all files":      {connect.TLS{CAFile: cert, CertFile: cert, KeyFile: key}, nil},
		"no authority":   {connect.TLS{CertFile: cert, KeyFile: key}, []string{b.Addr, "unknown authority"}},
		"no certificate": {connect.TLS{CAFile: cert}, []string{b.Addr}},
		"no file":        {connect.TLS{CAFile: cert + "x"}, []string{"nats.tls.caFile: open " + cert + "x"}},
		"no PEM": {
			connect.TLS{CAFile: "source.go"},
			[]string{"nats.tls.caFile: source.go holds no PEM certificate"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := *r
			r.Task, r.source.TLS = subscribetest.Named(t, "shop", "orders"), c.tls
			if c.wants == nil {
				r.open(1).Close()
				return
			}
			subscribetest.WantError(t, r.refused(1), c.wants...)
		})
	}
}
