package memory

import (
	"context"
	"fmt"

	"github.com/shardctl/shardctl/pkg/store"
)

// watchers are those who are notified of changes. Its methods want the database's lock held.
type watchers struct {
	all       map[*watcher]struct{}
	bySession map[string]map[*watcher]struct{} // who is notified of reservations
	byKey     map[string]map[*watcher]struct{} // who waits for a lock
}

// watcher has no goroutine: the writer puts notifications in.
type watcher struct {
	in store.Interest
	*store.Notifier
}

func newWatchers() watchers {
	return watchers{
		all: map[*watcher]struct{}{}, bySession: map[string]map[*watcher]struct{}{},
		byKey: map[string]map[*watcher]struct{}{},
	}
}

// Watch implements [store.Store]. Notifications carry their documents.
func (s *Store) Watch(ctx context.Context, in store.Interest) (<-chan store.Notification, error) {
	if err := in.Validate(); err != nil {
		return nil, fmt.Errorf("watch: %w", err)
	}
	w := &watcher{in: in, Notifier: store.NewNotifier()}
	err := s.call(ctx, Call{Op: OpWatch, Interest: in}, func() { s.db.watch(w) })
	if err != nil {
		s.db.unwatch(w)
		return nil, fmt.Errorf("watch: %w", err)
	}
	ended, stop := context.WithCancel(ctx)
	release := context.AfterFunc(s.closed, stop) //nolint:contextcheck // Close ends it as well as the caller's context
	context.AfterFunc(ended, func() {
		release()
		stop()
		s.db.unwatch(w)
	})
	return w.C(), nil
}

func (db *database) watch(w *watcher) {
	db.mu.Lock()
	defer db.mu.Unlock()
	db.watchers.all[w] = struct{}{}
	add(db.watchers.bySession, w.in.Session, w)
	for _, key := range w.in.Keys {
		add(db.watchers.byKey, key, w)
	}
}

// unwatch closes the channel of a watcher, once.
func (db *database) unwatch(w *watcher) {
	db.mu.Lock()
	defer db.mu.Unlock()
	if _, ok := db.watchers.all[w]; !ok {
		return
	}
	delete(db.watchers.all, w)
	remove(db.watchers.bySession, w.in.Session, w)
	for _, key := range w.in.Keys {
		remove(db.watchers.byKey, key, w)
	}
	w.Close()
}

func add(to map[string]map[*watcher]struct{}, name string, w *watcher) {
	if to[name] == nil {
		to[name] = map[*watcher]struct{}{}
	}
	to[name][w] = struct{}{}
}

func remove(from map[string]map[*watcher]struct{}, name string, w *watcher) {
	delete(from[name], w)
	if len(from[name]) == 0 {
		delete(from, name)
	}
}

// changed notifies those concerned that old became d; nil is absent.
func (ws watchers) changed(old, d *store.Doc) {
	if len(ws.all) == 0 || !store.Notable(old, d) {
		return
	}
	named := d
	if d == nil {
		named = &store.Doc{Kind: old.Kind, ID: old.ID, Group: old.Group}
	}
	if named.Kind.Info().Notify != store.NotifyFree {
		notify(ws.all, named, d)
		return
	}
	// Of many watchers few wait for one lock.
	notify(ws.bySession[named.Next], named, d)
	notify(ws.byKey[named.ID], named, d)
}

func notify(to map[*watcher]struct{}, named, d *store.Doc) {
	for w := range to {
		if !w.in.Wants(*named) {
			continue
		}
		n := store.Notification{Kind: named.Kind, ID: named.ID}
		if d != nil {
			c := copyDoc(d, false)
			n.Doc = &c
		}
		w.Send(n)
	}
}
