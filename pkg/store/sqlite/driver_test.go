package sqlite_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/sqlite"
)

// Who only reads makes neither a file nor tables, and may read what others have made.
func TestReadOnlyMakesNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	c := driver.Config{URI: "sqlite:" + path, Existing: true}
	if _, err := store.Open(t.Context(), c); !errors.Is(err, driver.ErrInvalid) {
		t.Errorf("without a file: %v, want ErrInvalid", err)
	}
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the file was made: %v", err)
	}
	writer := open(t, path, sqlite.Options{})
	apply(t.Context(), t, writer, create("g/a"))
	other := c
	other.Cluster = "other"
	if _, err := store.Open(t.Context(), other); !errors.Is(err, driver.ErrInvalid) {
		t.Errorf("a cluster that is not there: %v, want ErrInvalid", err)
	}
	reader, err := store.Open(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = reader.Close(t.Context()) }()
	if res, err := reader.Read(t.Context(), driver.KindLock, "g/a"); err != nil || len(res.Docs) != 1 {
		t.Errorf("read: %v, %v", res, err)
	}
}

func TestLocalURI(t *testing.T) {
	uri, err := driver.LocalURI("/tmp/dev.db")
	if err != nil || uri != "sqlite:/tmp/dev.db" {
		t.Errorf("got %s, %v", uri, err)
	}
}
