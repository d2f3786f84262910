// Package watchfile keeps values that are made from files, and makes them again when the files have changed. Renewing
// a certificate or a token needs no restart.
package watchfile

import (
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/go-logr/logr"
)

// Recheck is the least time between two looks at a file.
const Recheck = time.Second

// version distinguishes one content of a file from another without reading it. Kubernetes replaces a Secret's files by
// new ones behind a symlink, so the device and inode count as well, which os.SameFile compares.
type version struct{ info os.FileInfo }

func (v version) equal(w version) bool {
	return v.info.ModTime().Equal(w.info.ModTime()) && v.info.Size() == w.info.Size() && os.SameFile(v.info, w.info)
}

// Value is made from files, and again when one of them has changed. It is safe for concurrent use.
type Value[T any] struct {
	what  string // the files are, for the log
	paths []string
	parse func() (T, error)
	log   logr.Logger
	now   func() time.Time

	mu       sync.Mutex
	value    T
	versions []version
	looked   time.Time
}

// New makes the value for the first time, which must succeed. what names the files in the log: "certificate". parse is
// called by one goroutine at a time.
//
// Files are looked at when the value is asked for, at most once a second. A content that cannot be used is logged, and
// the last good one stays in force. Files that belong together are rarely replaced in one step.
func New[T any](what string, log logr.Logger, parse func() (T, error), paths ...string) (*Value[T], error) {
	w := &Value[T]{what: what, paths: paths, parse: parse, log: log, now: time.Now}
	versions, err := w.look()
	if err != nil {
		return nil, err
	}
	w.value, err = parse()
	w.versions, w.looked = versions, w.now()
	return w, err
}

// SetClock replaces the clock, for tests. Call it before the value is shared.
func (w *Value[T]) SetClock(now func() time.Time) { w.now = now }

// Get is the newest value that could be made.
func (w *Value[T]) Get() T {
	w.mu.Lock()
	defer w.mu.Unlock()
	if now := w.now(); now.Sub(w.looked) >= Recheck {
		w.looked = now
		w.renew()
	}
	return w.value
}

func (w *Value[T]) renew() {
	versions, err := w.look()
	if err != nil { // perhaps about to be replaced
		w.log.V(1).Info("A file cannot be read: the last good content stays", "file", w.what, "error", err.Error())
		return
	}
	if equal(versions, w.versions) {
		return
	}
	w.versions = versions // also when it cannot be used: it is logged once, and the next change is tried again
	value, err := w.parse()
	if err != nil {
		w.log.Error(err, "A changed file cannot be used: the last good content stays", "file", w.what, "files", w.paths)
		return
	}
	w.value = value
	w.log.Info("Files were read again", "file", w.what, "files", w.paths)
}

func equal(a, b []version) bool {
	for i := range a {
		if !a[i].equal(b[i]) {
			return false
		}
	}
	return true
}

func (w *Value[T]) look() ([]version, error) {
	versions := make([]version, len(w.paths))
	for i, path := range w.paths {
		info, err := os.Stat(path)
		if err != nil {
			return nil, fmt.Errorf("look at a file: %w", err)
		}
		versions[i] = version{info}
	}
	return versions, nil
}
