package sqlite_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/shardctl/shardctl/pkg/store/sqlite"
)

func TestHoldsWriteLock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	holds := func(pid int) bool {
		t.Helper()
		held, err := sqlite.HoldsWriteLock(path, pid)
		if err != nil {
			t.Fatal(err)
		}
		return held
	}
	if _, err := sqlite.HoldsWriteLock(path, os.Getpid()); err == nil {
		t.Error("no error without a file")
	}
	open(t, path, sqlite.Options{})
	if holds(os.Getpid()) {
		t.Error("not held")
	}
	unlock := lockFile(t, path)
	if !holds(os.Getpid()) || holds(1) {
		t.Error("not seen to be held, or by another")
	}
	if !holds(os.Getpid()) {
		t.Error("not held any more once it was asked")
	}
	unlock()
	if holds(os.Getpid()) {
		t.Error("seen to be held after the end")
	}

	for _, suffix := range []string{"", "-shm", "-wal"} { // others take their names
		if err := os.Rename(path+suffix, path+".old"+suffix); err != nil {
			t.Fatal(err)
		}
	}
	open(t, path, sqlite.Options{})
	unlock = lockFile(t, path)
	defer unlock()
	if !holds(os.Getpid()) {
		t.Error("not seen to be held in the file that has the name now")
	}
}
