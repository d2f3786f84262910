package certs

import (
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/go-logr/logr"
)

// recheck is the least time between two looks at a file.
const recheck = time.Second

// version distinguishes one content of a file from another without reading it. Kubernetes replaces a Secret's files by
// new ones behind a symlink, so the device and inode count as well, which os.SameFile compares.
type version struct{ info os.FileInfo }

func (v version) equal(w version) bool {
	return v.info.ModTime().Equal(w.info.ModTime()) && v.info.Size() == w.info.Size() && os.SameFile(v.info, w.info)
}

// watched is a value made from files, made again when one of them has changed. It is safe for concurrent use.
type watched[T any] struct {
	paths []string
	parse func() (T, error)
	log   logr.Logger
	now   func() time.Time

	mu       sync.Mutex
	value    T
	versions []version
	looked   time.Time
}

// newWatched reads the files for the first time, which must succeed.
func newWatched[T any](log logr.Logger, parse func() (T, error), paths ...string) (*watched[T], error) {
	w := &watched[T]{paths: paths, parse: parse, log: log, now: time.Now}
	versions, err := w.look()
	if err != nil {
		return nil, err
	}
	w.value, err = parse()
	w.versions, w.looked = versions, w.now()
	return w, err
}

// get is the newest value that could be made.
func (w *watched[T]) get() T {
	w.mu.Lock()
	defer w.mu.Unlock()
	if now := w.now(); now.Sub(w.looked) >= recheck {
		w.looked = now
		w.renew()
	}
	return w.value
}

func (w *watched[T]) renew() {
	versions, err := w.look()
	if err != nil { // perhaps about to be replaced
		w.log.V(1).Info("A certificate file cannot be read: the last good one stays", "error", err.Error())
		return
	}
	if equal(versions, w.versions) {
		return
	}
	w.versions = versions // also when it cannot be used: it is logged once, and the next change is tried again
	value, err := w.parse()
	if err != nil {
		w.log.Error(err, "A changed certificate file cannot be used: the last good one stays", "files", w.paths)
		return
	}
	w.value = value
	w.log.Info("Certificate files were read again", "files", w.paths)
}

func equal(a, b []version) bool {
	for i := range a {
		if !a[i].equal(b[i]) {
			return false
		}
	}
	return true
}

func (w *watched[T]) look() ([]version, error) {
	versions := make([]version, len(w.paths))
	for i, path := range w.paths {
		info, err := os.Stat(path)
		if err != nil {
			return nil, fmt.Errorf("look at a certificate file: %w", err)
		}
		versions[i] = version{info}
	}
	return versions, nil
}
