package redis_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/redis"
)

func TestURIs(t *testing.T) {
	for _, uri := range []string{
		"redis://h", "redis://h:1/15?nodes=3", "redis://u:p%40@h", "rediss://h?tlsCAFile=/ca", "redis://h?db=2",
		"redis+sentinel://a,b:1/shard?nodes=3&db=1&sentinelUser=s&sentinelPassword=p", "redis+cluster://a,b?nodes=2",
	} {
		if _, err := store.Parse(store.Config{URI: uri}); err != nil {
			t.Errorf("%s: %v", uri, err)
		}
	}
	for uri, want := range map[string]string{
		"redis:h":                               "must be redis://HOST",
		"redis://a,b":                           "names 2 hosts",
		"redis://h/x":                           "database by its number",
		"redis://h/1?db=2":                      "names another database",
		"redis://h?nodes=0":                     "must be 1 to 99",
		"redis://h?node=1":                      `has a parameter "node"`,
		"redis+sentinel://h?nodes=3":            "names no master",
		"redis+sentinel://h/shard":              "add nodes=N",
		"redis+cluster://h":                     "add nodes=N",
		"redis+cluster://h/1?nodes=2":           "has database 0 only",
		"rediss://h?tls=false":                  "tls=false",
		"redis://u:secret/word@h":               "write these as %2F",
		"redis+sentinel://u:secret@h/?nodes=zz": "names no master",
	} {
		_, err := store.Parse(store.Config{URI: uri})
		if !errors.Is(err, store.ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", uri, err, want)
		}
		if err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: the error shows the password: %v", uri, err)
		}
	}
	if _, err := store.Parse(store.Config{URI: "redis://h/1", Database: "2"}); err == nil {
		t.Error("two databases are taken")
	}
	if _, err := store.Parse(store.Config{URI: "redis://h", Cluster: "a b"}); err == nil {
		t.Error("a cluster with a blank is taken")
	}
}

func TestRedact(t *testing.T) {
	const uri = "redis+sentinel://u:secret@h/shard?nodes=3&sentinelPassword=secret"
	if got := redis.Redact(uri); strings.Contains(got, "secret") ||
		!strings.Contains(got, "u:xxxxx@h/shard?nodes=3") {
		t.Errorf("got %s", got)
	}
}
