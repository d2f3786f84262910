package zookeeper

import (
	"slices"
	"sync"

	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/internal/engine"
)

// maxFound is how many changes wait to be sent before one Resync takes their place.
const maxFound = 1000

// watcher notes events that concern one interest. Its methods may be called concurrently and never block.
type watcher struct {
	*access
	in    store.Interest
	bells map[string]store.Kind // paths of bells, by what they are about
	dirs  map[string]store.Kind // paths of directories of the index
	wake  chan struct{}         // holds one value while something is noted

	mu    sync.Mutex
	todo  todo
	found changes
}

// todo is what to look at.
type todo struct {
	resync bool // the connection was lost
	kinds  []store.Kind
	bells  map[string]struct{} // whose watches have fired
}

// changes are what was found and not yet sent.
type changes struct {
	resync bool // there were too many
	events []engine.Event
}

func newWatcher(a *access, in store.Interest) *watcher {
	w := &watcher{
		access: a, in: in, bells: map[string]store.Kind{}, dirs: map[string]store.Kind{}, wake: make(chan struct{}, 1),
	}
	for _, info := range store.Table() {
		if !in.WantsKind(info.Kind) {
			continue
		}
		switch info.Notify {
		case store.NotifyAlways:
			for i := range buckets(info.Kind) {
				w.dirs[a.index(info.Kind, i)] = info.Kind
			}
		case store.NotifyStates:
			w.bells[a.sessionBell()] = info.Kind
		case store.NotifyFree:
			for _, text := range append(slices.Clone(in.Keys), in.Session) {
				if text != "" {
					w.bells[a.freeBell(info.Kind, text)] = info.Kind
				}
			}
		case store.NotifyNever:
		}
	}
	return w
}

// all is everything that the interest is about.
func (w *watcher) all() todo {
	t := todo{bells: map[string]struct{}{}}
	for bell, kind := range w.bells {
		t.bells[bell] = struct{}{}
		t.add(kind)
	}
	for _, kind := range w.dirs {
		t.add(kind)
	}
	return t
}

func (t *todo) add(kind store.Kind) {
	if !slices.Contains(t.kinds, kind) {
		t.kinds = append(t.kinds, kind)
	}
}

// ring notes the bells whose watches have fired.
func (t *todo) ring(bells ...string) {
	if t.bells == nil {
		t.bells = map[string]struct{}{}
	}
	for _, bell := range bells {
		t.bells[bell] = struct{}{}
	}
}

// fired notes the event of a watch.
func (w *watcher) fired(path string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if kind, rings := w.bells[path]; rings {
		w.todo.add(kind)
		w.todo.ring(path)
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
	for bell := range t.bells {
		w.todo.ring(bell)
	}
}

// changed notes a change, if the interest is in it.
func (w *watcher) changed(kind store.Kind, old, d *store.Doc) {
	if !w.in.WantsKind(kind) {
		return
	}
	var named store.Doc
	if d != nil {
		named = *d
	} else {
		named = *old
		named.Next = ""
	}
	if !w.in.Wants(named) || !store.Notable(old, d) && !w.skipped(old, d) {
		return
	}
	e := engine.Event{About: named}
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
func (w *watcher) skipped(old, d *store.Doc) bool {
	return d != nil && d.Kind.Info().Notify == store.NotifyFree && slices.Contains(w.in.Keys, d.ID) &&
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
