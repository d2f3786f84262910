package program

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/go-logr/logr"

	"github.com/shardctl/shardctl/pkg/store"
)

// Whatever opens a store asks for its URI again: a password in a file is renewed while the command runs.
func TestURIsAreRenewed(t *testing.T) {
	dir := t.TempDir()
	secret, path := filepath.Join(dir, "password"), filepath.Join(dir, "shardctl.yaml")
	const before, after = "postgres://app:one@127.0.0.1/d", "postgres://app:two@127.0.0.1/d"
	uri := "postgres://app:$(file:" + secret + ")@127.0.0.1/d"
	put := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	put(secret, "one\n")
	put(path, "store: {uri: '"+uri+"'}\n")
	t.Setenv(envStoreURI, uri)
	lock := func(o lockOptions) func() (store.Config, error) {
		return func() (store.Config, error) {
			s, err := o.settings()
			if err != nil {
				return store.Config{}, err
			}
			return s.StoreConfig(logr.Discard()), nil
		}
	}
	check := func(o storeCheckOptions, args ...string) func() (store.Config, error) {
		return func() (store.Config, error) { return o.config(args) }
	}
	for name, open := range map[string]func() (store.Config, error){
		"run, and commands without a replica": func() (store.Config, error) {
			s, err := load([]string{path})
			if err != nil {
				return store.Config{}, err
			}
			return s.StoreConfig(logr.Discard()), nil
		},
		"lock --config":         lock(lockOptions{paths: []string{path}}),
		"lock --store":          lock(lockOptions{store: uri}),
		"lock, the environment": lock(lockOptions{}),
		"store check --config":  check(storeCheckOptions{paths: []string{path}}),
		"store check URI":       check(storeCheckOptions{}, uri),
		"store check":           check(storeCheckOptions{}),
		"store copy and others": func() (store.Config, error) { return storeConfig(uri, "", "") },
	} {
		put(secret, "one\n")
		c, err := open()
		if err != nil || c.URI != before || c.Renew == nil {
			t.Errorf("%s: opens %s, %v; renewed: %t", name, c.URI, err, c.Renew != nil)
			continue
		}
		put(secret, "two\n")
		if got, err := c.Renew(); got != after || err != nil {
			t.Errorf("%s: renewed as %s, %v", name, got, err)
		}
	}
}
