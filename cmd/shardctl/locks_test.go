package main

import (
	"encoding/json"
	"path/filepath"
	"testing"

	"github.com/go-logr/logr"

	"github.com/shardctl/shardctl/pkg/api"
	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/mutex"
)

// Without a replica the locks of programs are read from the store.
func TestGetLocksOfAStore(t *testing.T) {
	uri := "sqlite:" + filepath.Join(t.TempDir(), "a.db")
	locks, err := mutex.Open(t.Context(), uri, func(c *elect.Config) {
		c.Member.Instance, c.Logger = "web-1", logr.Discard()
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := locks.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}()
	held, err := locks.Mutex("reports/monthly").Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	config := writeConfig(t, "version: 1\nstore: {uri: \""+uri+"\"}\n"+
		"groups: [{name: g, tasks: [{name: a, exec: {command: [date]}}]}]\n")
	stdout, stderr, code := execute(t, "get", "locks", "reports/monthly", "-o", "json", "--config", config)
	var lock api.Lock
	if code != 0 || json.Unmarshal([]byte(stdout), &lock) != nil || lock.Kind != api.LockMutex ||
		len(lock.Holders) != 1 ||
		lock.Instance != "web-1" || lock.FencingToken != held.Token() || lock.OwnedSince.IsZero() {
		t.Errorf("code %d\n%s%s", code, stdout, stderr)
	}
	if stdout, _, code := execute(t, "get", "instances", "-o", "name", "--config", config); code != 0 || stdout != "" {
		t.Errorf("a program that only locks is an instance: code %d, %q", code, stdout)
	}
	if err := held.Unlock(t.Context()); err != nil {
		t.Error(err)
	}
}
