package access

import (
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/go-logr/logr"
)

// Recheck is the least time between two looks at a file.
const Recheck = time.Second

// settled is for how long files stay the same before they count as whole. Who writes a file in place does so in
// several steps.
const settled = 500 * time.Millisecond

// watched is made from files, and again when one of them has changed. It is safe for concurrent use.
type watched[T any] struct {
	what  string // the files are, for the log
	paths []string
	parse func(contents [][]byte) (T, error)
	log   logr.Logger
	now   func() time.Time

	mu    sync.Mutex
	value T
	used  [sha256.Size]byte // of the contents that the value is made from, or that cannot be used
	seen  [sha256.Size]byte // of the contents at the last look
	next  time.Time         // look
}

// watch makes the value for the first time, which must succeed. what names the files in the log: "certificate". parse
// is called by one goroutine at a time, with the contents of paths, in their order.
//
// Files are read when the value is asked for, at most once a second. A change counts once it is half a second old, by
// the time of the file or by two looks. A content that cannot be used is logged, and the last good one stays in force.
// Files that belong together are rarely replaced in one step.
func watch[T any](
	what string, log logr.Logger, parse func(contents [][]byte) (T, error), paths ...string,
) (*watched[T], error) {
	w := &watched[T]{what: what, paths: paths, parse: parse, log: log, now: time.Now}
	f, err := readAll(paths)
	if err != nil {
		return nil, err
	}
	w.value, err = parse(f.contents)
	w.used, w.next = f.sum, w.now().Add(Recheck)
	return w, err
}

// setClock replaces the clock, for tests. Call it before the value is shared.
func (w *watched[T]) setClock(now func() time.Time) { w.now = now }

// Get is the newest value that could be made.
func (w *watched[T]) Get() T {
	w.mu.Lock()
	defer w.mu.Unlock()
	if now := w.now(); !now.Before(w.next) {
		w.next = now.Add(Recheck)
		w.renew(now)
	}
	return w.value
}

func (w *watched[T]) renew(now time.Time) {
	f, err := readAll(w.paths)
	if err != nil { // perhaps about to be replaced
		w.log.V(1).Info("A file cannot be read: the last good content stays", "file", w.what, "error", err.Error())
		return
	}
	same := f.sum == w.seen
	w.seen = f.sum
	if f.sum == w.used {
		return
	}
	if !same && now.Sub(f.written) < settled { // perhaps still being written
		w.next = now.Add(settled)
		return
	}
	w.used = f.sum // also when it cannot be used: it is logged once, and the next change is tried again
	value, err := w.parse(f.contents)
	if err != nil {
		w.log.Error(err, "A changed file cannot be used: the last good content stays", "file", w.what, "files", w.paths)
		return
	}
	w.value = value
	w.log.Info("Files were read again", "file", w.what, "files", w.paths)
}

// files are what was read. Their content shows a change. The time and size of a file can stay the same where it is
// replaced twice at once.
type files struct {
	contents [][]byte
	sum      [sha256.Size]byte
	written  time.Time // the last time that one of them was written
}

func readAll(paths []string) (files, error) {
	f := files{contents: make([][]byte, len(paths))}
	sum := sha256.New()
	for i, path := range paths {
		content, written, err := readOne(path)
		if err != nil {
			return files{}, fmt.Errorf("read a file: %w", err)
		}
		f.contents[i] = content
		if written.After(f.written) {
			f.written = written
		}
		_, _ = fmt.Fprintf(sum, "%d\n", len(content)) // a hash's Write never fails
		_, _ = sum.Write(content)
	}
	f.sum = [sha256.Size]byte(sum.Sum(nil))
	return f, nil
}

// readOne asks for the time after the content is read, so that a write meanwhile shows in it.
func readOne(path string) (content []byte, written time.Time, err error) {
	f, err := os.Open(path) //nolint:gosec // G304: the file is one that the configuration names
	if err != nil {
		return nil, time.Time{}, err
	}
	defer func() { _ = f.Close() }()
	if content, err = io.ReadAll(f); err != nil {
		return nil, time.Time{}, err
	}
	info, err := f.Stat()
	if err != nil {
		return nil, time.Time{}, err
	}
	return content, info.ModTime(), nil
}
