package access

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-logr/logr"
)

// watchedFile is a file and its value, with a clock that only the test moves.
type watchedFile struct {
	*testing.T
	path  string
	now   time.Time
	value *watched[string]
}

func watchFile(t *testing.T, text string) *watchedFile {
	t.Helper()
	w := &watchedFile{T: t, path: filepath.Join(t.TempDir(), "token")}
	w.write(text, time.Now().Add(-time.Hour))
	value, err := watch("token", logr.Discard(), func(contents [][]byte) (string, error) {
		return string(contents[0]), nil
	}, w.path)
	if err != nil {
		t.Fatal(err)
	}
	value.setClock(func() time.Time { return w.now })
	w.value, w.now = value, time.Now()
	return w
}

// write writes the file in place.
func (w *watchedFile) write(text string, at time.Time) {
	w.Helper()
	if err := os.WriteFile(w.path, []byte(text), 0o600); err != nil {
		w.Fatal(err)
	}
	if err := os.Chtimes(w.path, at, at); err != nil {
		w.Fatal(err)
	}
}

// later asks after some time.
func (w *watchedFile) later(d time.Duration, want string) {
	w.Helper()
	w.now = w.now.Add(d)
	if got := w.value.Get(); got != want {
		w.Errorf("%q, want %q", got, want)
	}
}

func TestFileThatIsStillWrittenIsNotUsed(t *testing.T) {
	w := watchFile(t, "old")
	w.write("ne", w.now.Add(Recheck-time.Millisecond))
	w.later(Recheck, "old")
	w.write("new toke", w.now.Add(settled-time.Millisecond))
	w.later(settled, "old")
	w.write("new token", w.now)
	w.later(settled, "new token")
}

// A token that is replaced ends a second later, also where a look came amid the change.
func TestChangeCountsWithinASecond(t *testing.T) {
	for _, after := range []time.Duration{0, 1, settled - 1, settled, Recheck - 1} {
		w := watchFile(t, "old")
		w.later(Recheck, "old")
		w.write("new", w.now.Add(Recheck-after)) // the next look is this long after it
		w.now = w.now.Add(Recheck)
		w.value.Get()
		w.later(Recheck-after, "new")
	}
}

// Kubernetes writes new files and then swaps a symlink. They are whole by then.
func TestSwappedSymlinkCountsAtTheFirstLook(t *testing.T) {
	w := watchFile(t, "old")
	dir := filepath.Dir(w.path)
	swap := func(version, text string) {
		t.Helper()
		link := w.path
		w.path = filepath.Join(dir, version)
		w.write(text, w.now)
		w.path = link
		if err := os.Symlink(version, filepath.Join(dir, "draft")); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(filepath.Join(dir, "draft"), w.path); err != nil {
			t.Fatal(err)
		}
	}
	swap("1", "new")
	w.later(Recheck, "new")
	swap("2", "newer")
	swap("3", "again")
	w.later(Recheck, "again")
}

// A file system rounds times, so that two contents of one length can look alike.
func TestSecondChangeAtTheSameTimeIsSeen(t *testing.T) {
	w := watchFile(t, "token 1")
	at := w.now
	w.write("token 2", at)
	w.later(Recheck, "token 2")
	w.write("token 3", at)
	w.later(Recheck, "token 3")
}

// The clock of a file server may be ahead: what is the same at two looks counts all the same.
func TestFileOfTheFutureCountsAtTheSecondLook(t *testing.T) {
	w := watchFile(t, "old")
	w.write("new", w.now.Add(time.Hour))
	w.later(Recheck, "old")
	w.later(settled, "new")
}
