package config

import (
	"context"
	"crypto/sha256"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/fsnotify/fsnotify"
	"github.com/go-logr/logr"
)

const (
	// settle is how long the files must be quiet: an editor or a ConfigMap changes them in several steps.
	settle = 100 * time.Millisecond
	// pollEvery is how often the files are looked at without being told: some file systems tell nothing.
	pollEvery = 10 * time.Second
)

// Watcher loads a configuration anew when its files change, or when it is told to. Fill in the exported fields, then Run it.
type Watcher struct {
	Paths []string // as for [Load]
	Env   Lookup   // as for [Load]
	// Applied is called with the configuration to go on with: Current with new task lists. restart names the fields outside
	// the task lists that have changed as well, and wait for a restart; see [Changed]. It is called also when a refused
	// configuration is good again, and after each Trigger.
	Applied func(s *Settings, restart []string)
	// Refused is called when the configuration cannot be used, with [Errors]; the last good one stays.
	Refused func(err error)
	Logger  logr.Logger

	triggers chan struct{}
}

// NewWatcher makes a watcher of the files that paths mean. Set its hooks before Run.
func NewWatcher(paths []string, env func(name string) (value string, ok bool)) *Watcher {
	return &Watcher{Paths: paths, Env: env, triggers: make(chan struct{}, 1)}
}

// Trigger loads the configuration again, changed or not, as SIGHUP asks for. It may be called concurrently and never blocks;
// before Run it counts once Run begins.
func (w *Watcher) Trigger() {
	select {
	case w.triggers <- struct{}{}:
	default: // one is pending already
	}
}

// Run watches until ctx ends, and returns its error. current is what the process was started with. Hooks are called from Run's
// own goroutine, one at a time.
//
// A file is watched by its directory, since editors and ConfigMaps put new files in its place. Where the system cannot
// watch, the files are read every 10 s.
func (w *Watcher) Run(ctx context.Context, current *Settings) error {
	notify, err := fsnotify.NewWatcher()
	if err != nil {
		w.Logger.Error(err, "cannot watch the configuration, it is read every 10 s instead")
		notify = &fsnotify.Watcher{} // its channels are nil: they never tell anything
	} else {
		defer func() { _ = notify.Close() }()
	}
	r := &reloader{w: w, start: current, seen: current.seen}
	watched := w.watch(notify, nil)
	poll := time.NewTicker(pollEvery)
	defer poll.Stop()
	quiet := time.NewTimer(settle) // soon: what changed between Load and now
	defer quiet.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case event := <-notify.Events:
			if w.concerns(event.Name) {
				quiet.Reset(settle)
			}
		case err := <-notify.Errors:
			w.Logger.V(1).Info("events about the configuration were lost", "error", err.Error())
			quiet.Reset(settle)
		case <-quiet.C:
			r.look()
			watched = w.watch(notify, watched)
		case <-poll.C:
			r.look()
			watched = w.watch(notify, watched)
		case <-w.triggers:
			r.load()
		}
	}
}

// watch adds the directories that matter now, and removes those that did not stay.
func (w *Watcher) watch(notify *fsnotify.Watcher, watched []string) []string {
	if notify.Events == nil {
		return nil
	}
	dirs := directories(w.Paths)
	for _, dir := range dirs {
		// A directory put in the place of another is another one under the same name: adding it again is the way to follow.
		if err := notify.Add(dir); err != nil {
			w.Logger.V(1).Info("cannot watch a directory of the configuration", "directory", dir, "error", err.Error())
		}
	}
	for _, dir := range watched {
		if !slices.Contains(dirs, dir) {
			_ = notify.Remove(dir) // it may be gone already
		}
	}
	return dirs
}

// directories are those in which a change of the files would show: where paths stand, and where symlinks lead.
func directories(paths []string) []string {
	var dirs []string
	add := func(dir string) {
		if abs, err := filepath.Abs(dir); err == nil && !slices.Contains(dirs, abs) {
			dirs = append(dirs, abs)
		}
	}
	for _, path := range paths {
		add(filepath.Dir(path))
		target, err := filepath.EvalSymlinks(path)
		if err != nil {
			continue
		}
		if info, err := os.Stat(target); err == nil && info.IsDir() {
			add(path)
			add(target)
			continue
		}
		add(filepath.Dir(target))
	}
	return dirs
}

// concerns says whether an event may be about the configuration. What else is written beside it, a database perhaps, is not read about
// all the time. ..data is what a ConfigMap swaps.
func (w *Watcher) concerns(name string) bool {
	base := filepath.Base(name)
	if isConfigName(base) || strings.HasPrefix(base, "..") {
		return true
	}
	for _, path := range w.Paths {
		if filepath.Base(path) == base {
			return true
		}
		if target, err := filepath.EvalSymlinks(path); err == nil && filepath.Base(target) == base {
			return true
		}
	}
	return false
}

// reloader remembers what was seen and said.
type reloader struct {
	w     *Watcher
	start *Settings // what the process was started with
	seen  [sha256.Size]byte
}

// look loads the files when they hold something else than before.
func (r *reloader) look() {
	if now := fingerprint(r.w.Paths); now != r.seen {
		r.load()
	}
}

func (r *reloader) load() {
	r.seen = fingerprint(r.w.Paths)
	s, err := Load(r.w.Paths, r.w.Env)
	if err != nil {
		if r.w.Refused != nil {
			r.w.Refused(err)
		}
		return
	}
	if r.w.Applied != nil {
		r.w.Applied(r.start.WithLists(s), Changed(r.start, s))
	}
}

// fingerprint tells whether the files hold what they held before.
func fingerprint(paths []string) [sha256.Size]byte {
	files, errs := findFiles(paths)
	sum := newSum()
	for _, err := range errs {
		sum.add(err.File, nil, err)
	}
	for _, file := range files {
		content, err := readFile(file)
		sum.add(file, content, err)
	}
	return sum.sum()
}
