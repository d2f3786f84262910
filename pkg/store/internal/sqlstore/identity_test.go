package sqlstore_test

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/internal/sqlstore"
	"github.com/shardctl/shardctl/pkg/store/sqlite"
)

// Each store has an identity of its own, which is written once.
func TestIdentityIsWrittenOnce(t *testing.T) {
	seen := map[string]bool{}
	for range 2 {
		path := filepath.Join(t.TempDir(), "store.db")
		for range 2 {
			s, err := sqlite.Open(t.Context(), path, sqlite.Options{})
			if err != nil {
				t.Fatal(err)
			}
			if err := s.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
			found := texts(t, path, `SELECT uuid FROM default_identity`)
			if len(found) != len("00000000-0000-4000-8000-000000000000") {
				t.Errorf("identity %q, want one UUID", found)
			}
			seen[found] = true
		}
	}
	if len(seen) != 2 {
		t.Errorf("two stores have the identities %v", seen)
	}
}

// A table that was dropped is made again, with another identity: replicas that run take the store for another one.
func TestDroppedIdentityIsAnother(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	var seen []string
	for _, change := range []string{"", `DROP TABLE default_identity`, `DELETE FROM default_steps WHERE step > 5`} {
		if err := onFile(t.Context(), path, change); err != nil {
			t.Fatal(err)
		}
		s, err := sqlite.Open(t.Context(), path, sqlite.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		seen = append(seen, texts(t, path, `SELECT uuid FROM default_identity`))
	}
	if seen[0] == seen[1] || seen[1] == "" || seen[1] != seen[2] {
		t.Errorf("identities %q, want two, and the second one kept", seen)
	}
}

// What is not known is not compared. Once it is known, all connections are in doubt, and again after each doubt.
func TestIdentity(t *testing.T) {
	var i sqlstore.Identity
	if ask, _ := i.Ask(); ask != "" || i.Known() != "" || i.Check("anything") != nil {
		t.Error("an identity that is not known is compared")
	}
	_, before := i.Ask()
	i.Learn("SELECT 1", "mine")
	ask, learnt := i.Ask()
	i.Doubt()
	_, after := i.Ask()
	if ask != "SELECT 1" || learnt == before || after == learnt {
		t.Errorf("ask %q, doubts %d, %d, %d", ask, before, learnt, after)
	}
	if err := i.Check("mine"); err != nil {
		t.Error(err)
	}
	for found, says := range map[string]string{"others": "others", "": "missing"} {
		err := i.Check(found)
		if !errors.Is(err, driver.ErrOther) || !driver.Lasting(err) || !strings.Contains(err.Error(), "mine") ||
			!strings.Contains(err.Error(), says) {
			t.Errorf("found %q: %v", found, err)
		}
		if unknown := driver.AllUnknown(1, err)[0].Err; errors.Is(unknown, driver.ErrUnavailable) {
			t.Errorf("%v is told as unavailable", unknown)
		}
	}
}
