package replica

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/go-logr/logr"

	"github.com/shardctl/shardctl/internal/discover"
	"github.com/shardctl/shardctl/internal/published"
	"github.com/shardctl/shardctl/internal/settings"
	"github.com/shardctl/shardctl/internal/view"
	"github.com/shardctl/shardctl/internal/weights"
	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/store"
)

// settingsInForce are those of the files, which may be read again at any time, with the lists of the store. Use
// newSettings.
type settingsInForce struct {
	mu         sync.Mutex
	fromFiles  *settings.Settings
	storeLists view.StoreLists
	settings   *settings.Settings // those of the files, with the tasks of what was discovered
	refused    string             // what was wrong with the last configuration, if it was refused
	changed    chan struct{}      // has an element while settings may not have been declared yet
	reloaded   chan struct{}      // closed when the files were read again
}

func newSettings(s *settings.Settings) *settingsInForce {
	return &settingsInForce{fromFiles: s, settings: s, changed: make(chan struct{}, 1), reloaded: make(chan struct{})}
}

func (f *settingsInForce) get() *settings.Settings {
	s, _ := f.all()
	return s
}

// all are the settings in force, and the lists of the store in them.
func (f *settingsInForce) all() (*settings.Settings, view.StoreLists) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.settings, f.storeLists
}

// files are the settings as the files have them, and what is closed once they are read again.
func (f *settingsInForce) files() (*settings.Settings, <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.fromFiles, f.reloaded
}

func (f *settingsInForce) set(s *settings.Settings) {
	f.mu.Lock()
	f.fromFiles, f.refused = s, ""
	f.settings, f.storeLists = f.storeLists.Apply(s)
	close(f.reloaded)
	f.reloaded = make(chan struct{})
	f.mu.Unlock()
	f.declare()
}

// setDiscovered takes what was read of a group's list; failed says why it could not be read.
func (f *settingsInForce) setDiscovered(group string, p discover.Published, failed string) {
	f.mu.Lock()
	var changed bool
	if f.storeLists, changed = f.storeLists.WithDiscovered(group, p, failed); changed {
		f.settings, f.storeLists = f.storeLists.Apply(f.fromFiles)
	}
	f.mu.Unlock()
	if changed {
		f.declare()
	}
}

// setWeights takes what was read of a group's weights.
func (f *settingsInForce) setWeights(group string, p weights.Published) {
	f.mu.Lock()
	var changed bool
	f.storeLists, changed = f.storeLists.WithWeights(group, p)
	f.mu.Unlock()
	if changed {
		f.declare()
	}
}

// declare has the settings declared, soon.
func (f *settingsInForce) declare() {
	select {
	case f.changed <- struct{}{}:
	default: // the next declaration takes them
	}
}

// refuse notes that a configuration was refused and why; false: the same was noted before.
func (f *settingsInForce) refuse(why string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	fresh := f.refused != why
	f.refused = why
	return fresh
}

// keepDeclared declares the settings in force, and again whenever they have changed, until ctx ends or the elector is
// closed. Only the first declaration may fail. One goroutine declares, so an older list cannot overtake a newer one.
func (f *settingsInForce) keepDeclared(
	ctx context.Context, log logr.Logger, declare func(context.Context, *settings.Settings, view.StoreLists) error,
) error {
	for first := true; ; first = false {
		s, lists := f.all()
		err := declare(ctx, s, lists)
		switch {
		case errors.Is(err, elect.ErrClosed) || ctx.Err() != nil:
			return nil //nolint:nilerr // the replica is ending
		case err != nil && first:
			return err
		case err != nil:
			log.Error(err, "Cannot take up the new task lists")
		}
		select {
		case <-f.changed:
		case <-ctx.Done():
			return nil
		}
	}
}

const (
	// readEvery is how often the lists are read without a notification.
	readEvery = 30 * time.Second
	readRetry = time.Second
	firstRead = 2 * time.Second // how long the first declaration waits for the lists
)

// listReader keeps the lists of what was discovered, and of weights, as they are in the store.
type listReader struct {
	db       store.Store
	settings *settingsInForce
	op       time.Duration // of one operation
	log      logr.Logger
	found    map[string]*discover.Reader
	weights  map[string]*weights.Reader
}

func newListReader(db store.Store, s *settingsInForce, op time.Duration, log logr.Logger) *listReader {
	return &listReader{
		db: db, settings: s, op: op, log: log, found: map[string]*discover.Reader{},
		weights: map[string]*weights.Reader{},
	}
}

// readAll reads the lists of all groups that have any. ok says that all could be read.
func (r *listReader) readAll(ctx context.Context) (ok bool) {
	ok = true
	s, _ := r.settings.files()
	for i := range s.Groups {
		g := &s.Groups[i]
		if g.Discover != nil {
			ok = r.readFound(ctx, g.Name) && ok
		}
		if g.WeightFrom.Measured() {
			ok = r.readWeights(ctx, g.Name) && ok
		}
	}
	return ok
}

func (r *listReader) readFound(ctx context.Context, group string) bool {
	ctx, cancel := context.WithTimeout(ctx, r.op)
	defer cancel()
	found, err := readerOf(r.found, group, r.db, discover.NewReader).Read(ctx)
	switch {
	case err == nil:
		r.settings.setDiscovered(group, found, "")
	case errors.Is(err, store.ErrUnavailable) || ctx.Err() != nil: // StoreUnreachable says it
		r.log.V(1).Info("The list of what was discovered could not be read", "group", group, "error", err.Error())
	default:
		r.settings.setDiscovered(group, found, err.Error())
	}
	return err == nil
}

// readWeights reads the weights of a group. Where they cannot be read whole, those read last stay in force until they
// are published again; where some make no sense, the others count.
func (r *listReader) readWeights(ctx context.Context, group string) bool {
	ctx, cancel := context.WithTimeout(ctx, r.op)
	defer cancel()
	p, err := readerOf(r.weights, group, r.db, weights.NewReader).Read(ctx)
	if err != nil {
		r.log.V(1).Info("Weights could not be read", "group", group, "error", err.Error())
	}
	if err == nil || errors.Is(err, published.ErrMalformed) {
		r.settings.setWeights(group, p)
	}
	return err == nil
}

// readerOf is the reader of a group's list. It is made once: what it has read, it does not read again.
func readerOf[R any](all map[string]*R, group string, db store.Store, open func(store.Store, string) *R) *R {
	if all[group] == nil {
		all[group] = open(db, group)
	}
	return all[group]
}

// keepReading reads the lists when there may be newer ones, until ctx ends. changed is called after each reading.
func (r *listReader) keepReading(ctx context.Context, published func() <-chan struct{}, changed func()) {
	for {
		news := published()
		_, reloaded := r.settings.files()
		pause := readEvery
		if !r.readAll(ctx) {
			pause = readRetry
		}
		changed()
		timer := time.NewTimer(pause)
		select {
		case <-news:
		case <-reloaded:
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return
		}
		timer.Stop()
	}
}
