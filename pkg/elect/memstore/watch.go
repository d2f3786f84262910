package memstore

import (
	"context"
	"fmt"

	"github.com/shardctl/shardctl/pkg/elect/store"
)

// watchBuffer is how many hints wait for a slow reader before they are dropped for one Resync.
const watchBuffer = 256

// watchers are those who want hints. Its methods want the database's lock held.
type watchers struct {
	all       map[*watcher]struct{}
	bySession map[string]map[*watcher]struct{}
}

// watcher has a buffer and no goroutine: the writer puts hints in, and when there is no room it takes them all out again and
// puts one Resync in their place. So the reader always finds either all that it missed or a Resync.
type watcher struct {
	session string
	hints   chan store.Notification
}

func newWatchers() watchers {
	return watchers{all: map[*watcher]struct{}{}, bySession: map[string]map[*watcher]struct{}{}}
}

// Watch implements [store.Store]. Hints carry their documents.
func (s *Store) Watch(ctx context.Context, session string) (<-chan store.Notification, error) {
	w := &watcher{session: session, hints: make(chan store.Notification, watchBuffer)}
	err := s.call(ctx, Call{Op: OpWatch, Session: session}, func() { s.db.watch(w) })
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
	return w.hints, nil
}

func (db *database) watch(w *watcher) {
	db.mu.Lock()
	defer db.mu.Unlock()
	db.watchers.all[w] = struct{}{}
	if db.watchers.bySession[w.session] == nil {
		db.watchers.bySession[w.session] = map[*watcher]struct{}{}
	}
	db.watchers.bySession[w.session][w] = struct{}{}
	w.hints <- store.Notification{Resync: true}
}

// unwatch closes the channel of a watcher, once.
func (db *database) unwatch(w *watcher) {
	db.mu.Lock()
	defer db.mu.Unlock()
	if _, ok := db.watchers.all[w]; !ok {
		return
	}
	delete(db.watchers.all, w)
	delete(db.watchers.bySession[w.session], w)
	if len(db.watchers.bySession[w.session]) == 0 {
		delete(db.watchers.bySession, w.session)
	}
	close(w.hints)
}

// changed tells those concerned that old became d; nil is absent.
func (ws watchers) changed(old, d *store.Doc) {
	if len(ws.all) == 0 {
		return
	}
	named := d
	if d == nil {
		named = old
	}
	switch named.Kind {
	case store.KindGroup, store.KindOverride:
	case store.KindSession:
		if old != nil && d != nil && old.State == d.State {
			return
		}
	case store.KindLock:
		if d != nil && d.Next != "" {
			tell(ws.bySession[d.Next], d, d)
		}
		return
	default:
		return
	}
	tell(ws.all, named, d)
}

func tell(to map[*watcher]struct{}, named, d *store.Doc) {
	for w := range to {
		hint := store.Notification{Kind: named.Kind, ID: named.ID}
		if d != nil {
			c := copyDoc(d, false)
			hint.Doc = &c
		}
		w.send(hint)
	}
}

func (w *watcher) send(hint store.Notification) {
	select {
	case w.hints <- hint:
		return
	default:
	}
	for {
		select {
		case <-w.hints:
			continue
		default:
		}
		break
	}
	w.hints <- store.Notification{Resync: true}
}
