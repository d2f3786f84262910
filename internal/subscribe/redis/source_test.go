package redis_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/shardctl/shardctl/internal/connect"
	"github.com/shardctl/shardctl/internal/subscribe"
	"github.com/shardctl/shardctl/internal/subscribe/redis"
	"github.com/shardctl/shardctl/internal/subscribe/subscribetest"
	"github.com/shardctl/shardctl/test/testbroker"
)

func TestValidate(t *testing.T) {
	good := redis.Source{URL: "redis://h:6379/1", Stream: "s"}
	for name, c := range map[string]struct {
		change func(*redis.Source)
		wants  []string
	}{
		"defaults": {func(*redis.Source) {}, nil},
		"all": {func(s *redis.Source) {
			*s = redis.Source{
				URL: "rediss://h", Stream: "s", Group: "g", Start: "5-1", Offsets: subscribe.Broker,
				Missing: subscribe.Stop,
				Field:   "data", Block: time.Second, Login: connect.Login{User: "u", PasswordFile: "f"},
				TLS: connect.TLS{CAFile: "ca", CertFile: "c", KeyFile: "k"},
			}
		}, nil},
		"variables": {func(s *redis.Source) {
			s.URL, s.Start, s.TLS.CAFile = "$(URL)", "$(START)", "ca"
		}, nil},
		"empty": {func(s *redis.Source) { *s = redis.Source{} }, []string{"url: is required", "stream: is required"}},
		"texts": {func(s *redis.Source) {
			s.URL, s.Start, s.Offsets, s.Missing = "http://me:s3cret@h", "5-x", "there", "skip"
			s.Field, s.Block = "key", time.Hour
		}, []string{
			"url: is not the URL of a Redis", "start: must be earliest, latest or the ID",
			"offsets: must be broker or store", "missing: must be", "field: must be another name",
			"block: must be from 10ms",
		}},
		"query": {func(s *redis.Source) { s.URL += "?read_timeout=s3cret" }, []string{"url: is not the URL"}},
		"no tls": {func(s *redis.Source) {
			s.TLS.CAFile = "ca"
		}, []string{"tls: is set, but a URL that begins with redis://"}},
		"one file": {func(s *redis.Source) {
			s.URL, s.TLS.KeyFile = "rediss://h", "k"
		}, []string{"tls.certFile: is required with keyFile"}},
		"two logins": {func(s *redis.Source) {
			s.URL, s.Login.Password = "redis://me:s3cret@h", "s3cret"
		}, []string{"url: holds a user or password, and so do"}},
		"two passwords": {func(s *redis.Source) {
			s.Login = connect.Login{Password: "s3cret", PasswordFile: "f"}
		}, []string{"passwordFile: is set together with password"}},
		"no password": {func(s *redis.Source) { s.Login.User = "u" }, []string{"user: has no password"}},
		"group in store": {func(s *redis.Source) {
			s.Group, s.Offsets = "g", subscribe.Store
		}, []string{"group: is set together with offsets: store"}},
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
	s := redis.Source{
		URL: "redis://me:s3cret@h/0", Stream: "s", Login: connect.Login{Password: "s3cret"},
		TLS: connect.TLS{CAFile: "ca"},
	}
	shown := fmt.Sprint(s.Print())
	for _, part := range []string{
		"{url redis://me:xxxxx@h/0}", "{start earliest}", "{block 5s}", "{caFile ca}", "{field body}",
	} {
		if !strings.Contains(shown, part) {
			t.Errorf("got %s, want it to have %s", shown, part)
		}
	}
	if strings.Contains(shown, "s3cret") {
		t.Errorf("shows a password: %s", shown)
	}
	s.Login.Password = "$(PASSWORD)"
	if shown = fmt.Sprint(s.Print()); !strings.Contains(shown, "{password $(PASSWORD)}") {
		t.Errorf("got %s, want the variable", shown)
	}
}

func TestLogin(t *testing.T) {
	b := testbroker.Redis(t, "user ann on >s3cret ~* +@all", "user bob on >other ~* +@read", "user default off",
		"user carl on >s3cret ~s ~{s}:shardctl:* +@read +@stream +@scripting +@hash +@connection +time +type")
	admin := goredis.NewClient(&goredis.Options{Addr: b.Addr, Username: "ann", Password: "s3cret"})
	t.Cleanup(func() { _ = admin.Close() })
	entry := &goredis.XAddArgs{Stream: "s", Values: []any{"body", "x"}}
	if err := admin.XAdd(subscribetest.Context(t), entry).Err(); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(file, []byte("s3cret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		url   string
		login connect.Login
		wants []string
	}{
		"field": {"redis://" + b.Addr, connect.Login{User: "ann", Password: "s3cret"}, nil},
		"file":  {"redis://" + b.Addr, connect.Login{User: "ann", PasswordFile: file}, nil},
		"url":   {"redis://ann:s3cret@" + b.Addr, connect.Login{}, nil},
		"none":  {"redis://" + b.Addr, connect.Login{}, []string{"NOAUTH", "redis.password", b.Addr}},
		"few":   {"redis://carl:s3cret@" + b.Addr, connect.Login{}, nil},
		"wrong": {
			"redis://" + b.Addr,
			connect.Login{User: "ann", Password: "secret"},
			[]string{"WRONGPASS", "user"},
		},
		"wrong url": {"redis://ann:secret@" + b.Addr, connect.Login{}, []string{"WRONGPASS", "redis.user"}},
		"no file": {
			"redis://" + b.Addr,
			connect.Login{PasswordFile: file + "x"},
			[]string{"redis.passwordFile", "no such"},
		},
		"rights": {"redis://" + b.Addr, connect.Login{User: "bob", Password: "other"}, []string{
			"NOPERM",
			"ACL SETUSER",
		}},
		"tls": {"rediss://" + b.Addr, connect.Login{}, []string{"no answer within 5s", b.Addr}},
	} {
		t.Run(name, func(t *testing.T) {
			source := redis.Source{URL: c.url, Stream: "s", Login: c.login}
			r := &rig{subscribetest.Named(t, "shop", "orders"), admin, source}
			if c.wants == nil {
				s := r.open(1)
				s.Ack(s.Take(1)...)
				if lag := s.Lag(); lag.Messages != 0 {
					t.Errorf("lag %+v", lag)
				}
				s.Close()
				r.do("DEL", "{s}:shardctl:shardctl.shop.orders")
				r.do("XGROUP", "DESTROY", "s", "shardctl.shop.orders")
				return
			}
			subscribetest.WantError(t, r.refused(1), c.wants...)
		})
	}
}
