package zookeeper

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/internal/dbstore"
)

// retryWatch is the pause before a watch that failed looks again. When the connection comes back it looks at once.
const retryWatch = 200 * time.Millisecond

// Tail implements [dbstore.Watcher]. ZooKeeper's watches say only that something has changed, once, so what has changed
// is found by comparing caches. Which znodes are watched depends on the interest: the index of groups and of overrides,
// and signals for sessions and locks, which their writers touch. So heartbeats and claims wake no watcher. A lost
// connection or session costs a Resync, never the tail.
func (b *backend) Tail(ctx context.Context, in driver.Interest, begun func(), emit func(dbstore.Event)) error {
	f := &follower{watcher: newWatcher(b.access, in), caches: b.hub.caches, emit: emit}
	b.hub.add(f.watcher)
	defer b.hub.remove(f.watcher)
	if err := f.begin(ctx); err != nil {
		return err
	}
	begun()
	f.run(ctx)
	return context.Cause(ctx)
}

// follower turns what a watcher has noted into events.
type follower struct {
	*watcher
	caches map[driver.Kind]*cache
	emit   func(dbstore.Event)
}

// begin sets all watches and reads all that later changes are compared with.
func (f *follower) begin(ctx context.Context) error {
	ctx, release := context.WithTimeout(ctx, f.timeout)
	defer release()
	err := f.look(ctx, f.all())
	f.takeFound() // the first notification is a Resync
	return err
}

// run emits until ctx ends.
func (f *follower) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-f.wake:
		}
		if !f.once(ctx) {
			again := time.NewTimer(retryWatch)
			select {
			case <-ctx.Done():
			case <-f.wake:
			case <-again.C:
			}
			again.Stop()
			f.signal()
		}
	}
}

// once looks at what was noted and emits what it finds. False: it is to be tried again.
func (f *follower) once(ctx context.Context) bool {
	todo := f.take()
	limited, release := context.WithTimeout(ctx, f.timeout)
	defer release()
	if err := f.look(limited, todo); err != nil {
		if ctx.Err() == nil {
			f.log.V(1).Info("A watch cannot look", "reason", f.causes.Translate("watch", err).Error())
		}
		f.putBack(todo)
		return false
	}
	found := f.takeFound()
	if todo.resync || found.resync {
		f.emit(dbstore.Event{Resync: true})
		return true
	}
	for _, e := range found.events {
		f.emit(e)
	}
	return true
}

// look sets watches that have fired, and then reads what they were about. What changes in between fires them again.
func (f *follower) look(ctx context.Context, todo todo) error {
	signals := make([]string, 0, len(todo.signals))
	for signal := range todo.signals {
		signals = append(signals, signal)
	}
	errs := make([]error, len(signals))
	each(len(signals), func(i int) {
		_, errs[i] = do(ctx, f.client, func(conn *zk.Conn) (bool, error) {
			there, _, _, err := conn.ExistsW(signals[i])
			return there, err
		})
	})
	if err := firstOf(errs); err != nil {
		return err
	}
	// All at once: from far away each costs some trips.
	errs = make([]error, len(todo.kinds))
	each(len(todo.kinds), func(i int) { errs[i] = f.caches[todo.kinds[i]].refresh(ctx) })
	return firstOf(errs)
}

// maxFound is how many changes wait to be sent before one Resync takes their place.
const maxFound = 1000

// watcher notes events that concern one interest. Its methods may be called concurrently and never block.
type watcher struct {
	*access
	in      driver.Interest
	signals map[string]driver.Kind // paths of signals, by what they are about
	dirs    map[string]driver.Kind // paths of directories of the index
	wake    chan struct{}          // holds one value while something is noted

	mu    sync.Mutex
	todo  todo
	found changes
}

// todo is what to look at.
type todo struct {
	resync  bool // the connection was lost
	kinds   []driver.Kind
	signals map[string]struct{} // whose watches have fired
}

// changes are what was found and not yet sent.
type changes struct {
	resync bool // there were too many
	events []dbstore.Event
}

func newWatcher(a *access, in driver.Interest) *watcher {
	w := &watcher{
		access: a, in: in, signals: map[string]driver.Kind{}, dirs: map[string]driver.Kind{},
		wake: make(chan struct{}, 1),
	}
	for _, info := range driver.Table() {
		if !in.WantsKind(info.Kind) {
			continue
		}
		switch info.Notify {
		case driver.NotifyAlways:
			for i := range buckets(info.Kind) {
				w.dirs[a.index(info.Kind, i)] = info.Kind
			}
		case driver.NotifyStates:
			w.signals[a.sessionSignal()] = info.Kind
		case driver.NotifyFree:
			for _, text := range append(slices.Clone(in.Keys), in.Session) {
				if text != "" {
					w.signals[a.freeSignal(info.Kind, text)] = info.Kind
				}
			}
		case driver.NotifyNever:
		}
	}
	return w
}

// all is everything that the interest is about.
func (w *watcher) all() todo {
	t := todo{signals: map[string]struct{}{}}
	for signal, kind := range w.signals {
		t.signals[signal] = struct{}{}
		t.add(kind)
	}
	for _, kind := range w.dirs {
		t.add(kind)
	}
	return t
}

func (t *todo) add(kind driver.Kind) {
	if !slices.Contains(t.kinds, kind) {
		t.kinds = append(t.kinds, kind)
	}
}

// touch notes the signals whose watches have fired.
func (t *todo) touch(signals ...string) {
	if t.signals == nil {
		t.signals = map[string]struct{}{}
	}
	for _, signal := range signals {
		t.signals[signal] = struct{}{}
	}
}

// fired notes the event of a watch.
func (w *watcher) fired(path string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if kind, touches := w.signals[path]; touches {
		w.todo.add(kind)
		w.todo.touch(path)
		w.signal()
	}
	if kind, listed := w.dirs[path]; listed {
		w.todo.add(kind)
		w.signal()
	}
}

// reconnected notes that events may have been lost.
func (w *watcher) reconnected() {
	all := w.all()
	all.resync = true
	w.putBack(all)
	w.signal()
}

// putBack notes again what could not be looked at.
func (w *watcher) putBack(t todo) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.todo.resync = w.todo.resync || t.resync
	for _, kind := range t.kinds {
		w.todo.add(kind)
	}
	for signal := range t.signals {
		w.todo.touch(signal)
	}
}

// changed notes a change, if the interest is in it.
func (w *watcher) changed(kind driver.Kind, old, d *driver.Doc) {
	if !w.in.WantsKind(kind) {
		return
	}
	var named driver.Doc
	if d != nil {
		named = *d
	} else {
		named = *old
		named.Next = ""
	}
	if !w.in.Wants(named) || !driver.Notable(old, d) && !w.skipped(old, d) {
		return
	}
	e := dbstore.Event{About: named}
	if d != nil {
		shown := *d
		shown.Body = slices.Clone(d.Body)
		e.Doc = &shown
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.found.events) >= maxFound {
		w.found = changes{resync: true}
	}
	w.found.events = append(w.found.events, e)
	w.signal()
}

// skipped says whether a lock may have been without an owner between two looks: it has another owner now.
func (w *watcher) skipped(old, d *driver.Doc) bool {
	return d != nil && d.Kind.Info().Notify == driver.NotifyFree && slices.Contains(w.in.Keys, d.ID) &&
		(old == nil || old.Session != d.Session)
}

// signal has the follower look.
func (w *watcher) signal() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// take is what to look at now.
func (w *watcher) take() todo {
	w.mu.Lock()
	defer w.mu.Unlock()
	t := w.todo
	w.todo = todo{}
	return t
}

// takeFound is what to send now.
func (w *watcher) takeFound() changes {
	w.mu.Lock()
	defer w.mu.Unlock()
	f := w.found
	w.found = changes{}
	return f
}

// hub hands events, and changes that refreshes of caches found, to those whom they concern. None of its methods blocks.
type hub struct {
	*access
	caches map[driver.Kind]*cache // set before the first event

	mu       sync.Mutex
	watchers map[*watcher]struct{}
}

// event is an event of the library, in its order among the replies.
func (h *hub) event(e zk.Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if e.Type == zk.EventSession {
		if e.State == zk.StateHasSession {
			for w := range h.watchers {
				w.reconnected()
			}
		}
		return
	}
	if e.Path == h.floorPath() {
		h.floorBase.fired.Add(1)
	}
	for _, m := range h.caches {
		m.fired(e.Path)
	}
	for w := range h.watchers {
		w.fired(e.Path)
	}
}

// changed is a change that a refresh found; nil is absent.
func (h *hub) changed(kind driver.Kind, old, d *driver.Doc) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for w := range h.watchers {
		w.changed(kind, old, d)
	}
}

func (h *hub) add(w *watcher) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.watchers[w] = struct{}{}
}

func (h *hub) remove(w *watcher) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.watchers, w)
}
