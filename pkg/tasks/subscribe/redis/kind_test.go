package redis_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/shardctl/shardctl/pkg/tasks/subscribe/redis"
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
				URL: "rediss://h", Stream: "s", Group: "g", Start: "5-1", Offsets: redis.Broker, Missing: redis.Stop,
				Field: "data", Block: time.Second, Login: redis.Login{User: "u", PasswordFile: "f"},
				TLS: redis.TLS{CAFile: "ca", CertFile: "c", KeyFile: "k"},
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
			s.Login = redis.Login{Password: "s3cret", PasswordFile: "f"}
		}, []string{"passwordFile: is set together with password"}},
		"no password": {func(s *redis.Source) { s.Login.User = "u" }, []string{"user: has no password"}},
		"group in store": {func(s *redis.Source) {
			s.Group, s.Offsets = "g", redis.Store
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
		URL: "redis://me:s3cret@h/0", Stream: "s", Login: redis.Login{Password: "s3cret"}, TLS: redis.TLS{CAFile: "ca"},
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
