package config

import (
	"context"
	"path/filepath"
	"slices"
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
	// outside the task lists that have changed as well, and wait for a restart; see [Changed]. It is called also
	// when a refused configuration is good again, and after each Trigger.
	Applied func(s *Settings, restart []string)
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
func (w *Watcher) Run(ctx context.Context, current *Settings) error {
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
