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
	// settle is how long the files must be quiet: an editor or a ConfigMap changes them in several steps. Where they
	// never are, they are looked at all the same after patience. Looks are at least lookEvery apart, and what two in a
	// row find the same is taken for whole.
	settle    = 100 * time.Millisecond
	patience  = time.Second
	lookEvery = 500 * time.Millisecond
	// pollEvery is how often the files are looked at without an event: some file systems have none.
	pollEvery = 10 * time.Second
)

// Watcher loads a configuration again when its files change, or when Trigger asks for it. Fill in the exported
// fields, then Run it.
type Watcher struct {
	Paths   []string // as for [Load]
	Options Options  // as for [Load]
	// Applied is called with the configuration to go on with: Current with new task lists. restart names the fields
	// outside the task lists that have changed as well, and wait for a restart; such as lease.duration. It is called
	// also when a refused configuration is good again, and after each Trigger.
	Applied func(c *Config, restart []string)
	// Refused is called when the configuration cannot be used, with [decode.Errors]; the last good one stays.
	Refused func(err error)
	Logger  logr.Logger

	triggers chan struct{}
	links    func(path string) (string, error) // follows symlinks
}

// NewWatcher makes a watcher of the files that paths mean. Set its hooks before Run.
func NewWatcher(paths []string, opts Options) *Watcher {
	return &Watcher{Paths: paths, Options: opts, triggers: make(chan struct{}, 1), links: filepath.EvalSymlinks}
}

// Trigger loads the configuration again, changed or not, as SIGHUP asks for. It may be called concurrently and never
// blocks; before Run it counts once Run begins.
func (w *Watcher) Trigger() {
	select {
	case w.triggers <- struct{}{}:
	default: // one is pending already
	}
}

// Run watches until ctx ends, and returns its error. current is what the process was started with. Hooks are called
// from Run's own goroutine, one at a time.
//
// What changed is loaded once two looks, half a second apart, find the same. So a file that somebody writes in place is
// not loaded half-way.
//
// A file is watched by its directory, since editors and ConfigMaps put new files in its place. Where the system cannot
// watch, the files are read every 10 s.
func (w *Watcher) Run(ctx context.Context, current *Config) error {
	notify, err := fsnotify.NewWatcher()
	if err != nil {
		w.Logger.Error(err, "Cannot watch the configuration: it is read every 10 s instead")
		notify = &fsnotify.Watcher{} // its channels are nil: they never have anything
	} else {
		defer func() { _ = notify.Close() }()
	}
	r := &reloader{w: w, start: current, seen: current.seen}
	at := w.watch(notify, watched{})
	poll := time.NewTicker(pollEvery)
	defer poll.Stop()
	var p pace
	quiet := time.NewTimer(settle) // soon: what changed between Load and now
	defer quiet.Stop()
	look := func() {
		p.looked(time.Now())
		if r.look() {
			quiet.Reset(lookEvery)
		}
		at = w.watch(notify, at)
	}
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case event := <-notify.Events:
			if at.concerns(event.Name) {
				quiet.Reset(p.event(time.Now()))
			}
		case err := <-notify.Errors:
			w.Logger.V(1).Info("Events about the configuration were lost", "error", err.Error())
			quiet.Reset(p.event(time.Now()))
		case <-quiet.C:
			look()
		case <-poll.C:
			quiet.Reset(p.event(time.Now()))
		case <-w.triggers:
			r.asked = true
			quiet.Reset(p.event(time.Now()))
		}
	}
}

// watch adds the directories that matter now, and removes those that did not stay.
func (w *Watcher) watch(notify *fsnotify.Watcher, before watched) watched {
	if notify.Events == nil {
		return watched{}
	}
	now := watchedBy(w.Paths, w.links)
	for _, dir := range now.dirs {
		// A directory put in the place of another is another one under the same name: adding it again is the way to
		// follow.
		if err := notify.Add(dir); err != nil {
			w.Logger.V(1).Info("Cannot watch a directory of the configuration", "dir", dir, "error", err.Error())
		}
	}
	for _, dir := range before.dirs {
		if !slices.Contains(now.dirs, dir) {
			_ = notify.Remove(dir) // it may be gone already
		}
	}
	return now
}

// pace says how soon after an event the files are looked at.
type pace struct {
	first time.Time // of the events since the last look; zero: none
	last  time.Time // look
}

func (p *pace) looked(now time.Time) { p.first, p.last = time.Time{}, now }

// event is how long to wait from an event on.
func (p *pace) event(now time.Time) time.Duration {
	if p.first.IsZero() {
		p.first = now
	}
	wait := min(settle, p.first.Add(patience).Sub(now))
	return max(0, wait, p.last.Add(lookEvery).Sub(now))
}

// reloader remembers what was seen and said.
type reloader struct {
	w     *Watcher
	start *Config           // what the process was started with
	seen  [sha256.Size]byte // of what was applied or refused
	last  [sha256.Size]byte // of what the last look found
	asked bool              // for a load, changed or not
	// changing counts the looks in a row that found another content each.
	changing int
}

// manyLooks in a row that find another content each are reported.
const manyLooks = 3

// look loads the files when they hold something else than before, and the same as at the last look. It says whether
// another look is needed. Who writes a file in place does so in several steps, and each of them can be a configuration.
func (r *reloader) look() (again bool) {
	now := fingerprint(r.w.Paths)
	switch {
	case now == r.seen && !r.asked:
		r.last, r.changing = now, 0
		return false
	case now == r.seen, now == r.last:
		r.last = now
		return r.load()
	default:
		return r.changed(now)
	}
}

func (r *reloader) changed(now [sha256.Size]byte) (again bool) {
	r.last = now
	if r.changing++; r.changing == manyLooks {
		r.w.Logger.Info("The configuration is still being written: it is applied once two looks find the same")
	}
	return true
}

func (r *reloader) load() (again bool) {
	c, sum, err := loadAll(r.w.Paths, r.w.Options)
	if sum != r.last {
		return r.changed(sum)
	}
	r.seen, r.asked, r.changing = sum, false, 0
	if err != nil {
		if r.w.Refused != nil {
			r.w.Refused(err)
		}
		return false
	}
	if r.w.Applied != nil {
		r.w.Applied(r.start.withLists(c), changed(r.start.Settings, c.Settings))
	}
	return false
}

// fingerprint says whether the files hold what they held before.
func fingerprint(paths []string) [sha256.Size]byte {
	files, errs := findFiles(paths, false)
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

// watched is where a change of the configuration would show. It has the directories in which paths stand and to which
// symlinks lead, and the names of files there. It is made at each look at the files, since symlinks change, and not for
// every event.
type watched struct {
	dirs  []string
	names []string
}

// watchedBy follows each path once, by links: filepath.EvalSymlinks.
func watchedBy(paths []string, links func(string) (string, error)) watched {
	var w watched
	add := func(list *[]string, value string) {
		if !slices.Contains(*list, value) {
			*list = append(*list, value)
		}
	}
	addDir := func(dir string) {
		if abs, err := filepath.Abs(dir); err == nil {
			add(&w.dirs, abs)
		}
	}
	for _, path := range paths {
		addDir(filepath.Dir(path))
		add(&w.names, filepath.Base(path))
		target, err := links(path)
		if err != nil {
			continue
		}
		add(&w.names, filepath.Base(target))
		if info, err := os.Stat(target); err == nil && info.IsDir() {
			addDir(path)
			addDir(target)
			continue
		}
		addDir(filepath.Dir(target))
	}
	return w
}

// concerns says by its name alone whether an event may be about the configuration. Other files written in the same
// directory, a log or a database, must cost nothing. ..data is what a ConfigMap swaps.
func (w watched) concerns(file string) bool {
	base := filepath.Base(file)
	return isConfigName(base) || strings.HasPrefix(base, "..") || slices.Contains(w.names, base)
}
