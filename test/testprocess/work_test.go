//go:build unix

package testprocess_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/shardctl/shardctl/test/testprocess"
)

// workDir is a new one with data, a log and a record.
func workDir(t *testing.T) *testprocess.Work {
	t.Helper()
	w, err := testprocess.WorkDir("worktest")
	check(t, "make a directory", err)
	for _, name := range []string{"data/journal", "data/out.log", "record"} {
		check(t, "write", os.WriteFile(filepath.Join(w.Dir, name), []byte("x"), 0o600))
	}
	return w
}

// has says which of a directory's files are there.
func has(t *testing.T, w *testprocess.Work, data, log, record bool) {
	t.Helper()
	for name, want := range map[string]bool{"data/journal": data, "data/out.log": log, "record": record} {
		_, err := os.Stat(filepath.Join(w.Dir, name))
		if got := !errors.Is(err, fs.ErrNotExist); got != want {
			t.Errorf("%s of %s is there: %v, want %v", name, w.Dir, got, want)
		}
	}
}

// age has a directory look as if it was made then.
func age(t *testing.T, w *testprocess.Work, by time.Duration) {
	t.Helper()
	check(t, "age", os.Chtimes(w.Dir, time.Time{}, time.Now().Add(-by)))
}

func TestOnlyTheNewestFailureIsKept(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	passed, first, second, running := workDir(t), workDir(t), workDir(t), workDir(t)
	check(t, "close", passed.Close(false))
	has(t, passed, false, false, false)
	check(t, "close", first.Close(true))
	has(t, first, false, true, true)
	check(t, "close", second.Close(true))
	has(t, first, false, false, false)
	has(t, second, false, true, true)
	has(t, running, true, true, true)
	check(t, "close", running.Close(false))
}

func TestWhatKilledProcessesLeftGoes(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	fresh, killed, old, held := workDir(t), workDir(t), workDir(t), workDir(t)
	for _, w := range []*testprocess.Work{fresh, killed, old} {
		w.GiveUp()
	}
	age(t, killed, time.Hour)
	age(t, old, 25*time.Hour)
	age(t, held, 25*time.Hour)
	check(t, "close", workDir(t).Close(false))
	has(t, fresh, true, true, true)
	has(t, killed, false, true, true)
	has(t, old, false, false, false)
	has(t, held, true, true, true)
	check(t, "close", held.Close(false))
}
