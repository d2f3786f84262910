package dbstore

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/go-logr/logr"

	"github.com/shardctl/shardctl/pkg/store/driver"
)

// tails are what the watches of one store have in common.
type tails struct {
	log     logr.Logger
	broken  atomic.Bool   // a tail has broken, and none has shown a change since
	joining chan struct{} // holds a value while a watcher joins
	current *tail         // the shared one; nil: there was none. For who joins
}

// watch has a watcher join the tail that all share, or begins one for it.
func (s *Store) watch(ctx context.Context, in driver.Interest) (<-chan driver.Notification, error) {
	b, ok := s.backend.(Watcher)
	if !ok {
		return nil, driver.ErrCannotWatch
	}
	w := &watcher{in: in, Notifier: driver.NewNotifier()}
	if !s.traits.SharedTail {
		return s.begin(ctx, b, w, &tail{})
	}
	select {
	case s.tails.joining <- struct{}{}:
		defer func() { <-s.tails.joining }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if t := s.tails.current; t != nil && t.join(w) {
		context.AfterFunc(ctx, func() { t.leave(w) })
		return w.C(), nil
	}
	s.tails.current = &tail{}
	return s.begin(ctx, b, w, s.tails.current)
}

// begin runs a tail with its first watcher. It returns when nothing is missed any more.
func (s *Store) begin(ctx context.Context, b Watcher, w *watcher, t *tail) (<-chan driver.Notification, error) {
	opening, opened := s.life.Bound(ctx)
	defer opened()
	running, end := context.WithCancel(context.WithoutCancel(ctx))
	t.end, t.watchers = end, map[*watcher]struct{}{w: {}}
	opens, begun := make(chan error, 1), false
	if !s.life.Go(func() {
		defer s.life.OnEnd(end)()
		defer t.finish()
		err := b.Tail(running, w.in, func() { begun = true; opens <- nil }, func(e Event) {
			s.tails.broken.Store(s.tails.broken.Load() && e.Resync)
			t.notify(e)
		})
		switch {
		case !begun:
			opens <- err
		case running.Err() == nil:
			s.tails.broke(s.backend.Translate("watch", err))
		}
	}) {
		end()
		return nil, ErrClosed
	}
	var err error
	select {
	case err = <-opens:
	case <-opening.Done():
		err = context.Cause(opening)
	}
	if err != nil {
		t.leave(w)
		return nil, err
	}
	context.AfterFunc(ctx, func() { t.leave(w) })
	return w.C(), nil
}

// broke logs why a tail broke: as an error once until one works again, since callers begin another one at once.
func (ts *tails) broke(why error) {
	if ts.broken.Swap(true) {
		ts.log.V(1).Info("The watch broke again", "error", why.Error())
		return
	}
	ts.log.Error(why, "The watch broke: opening it again")
}

// tail is one [Watcher.Tail] and those who are notified of it. Its methods may be called concurrently.
type tail struct {
	end      context.CancelFunc
	mu       sync.Mutex
	watchers map[*watcher]struct{}
	over     bool // no one can join any more
}

// watcher is one Watch. The lock of its tail is held when it is written to.
type watcher struct {
	in driver.Interest
	*driver.Notifier
}

// join adds a watcher. False: the tail is over.
func (t *tail) join(w *watcher) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.over {
		t.watchers[w] = struct{}{}
	}
	return !t.over
}

// leave ends a watcher, and the tail with the last one.
func (t *tail) leave(w *watcher) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, there := t.watchers[w]; !there {
		return
	}
	delete(t.watchers, w)
	w.Close()
	if len(t.watchers) == 0 {
		t.over = true
		t.end()
	}
}

// finish ends all watchers.
func (t *tail) finish() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.over = true
	for w := range t.watchers {
		w.Close()
	}
	clear(t.watchers)
	t.end()
}

// notify hands an event to the watchers who are interested.
func (t *tail) notify(e Event) {
	n := driver.Notification{Kind: e.About.Kind, ID: e.About.ID}
	n.Doc, _ = usable(e.Doc, nil)
	if e.Resync {
		n = driver.Notification{Resync: true}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for w := range t.watchers {
		if e.Resync || w.in.Wants(e.About) {
			w.Send(n)
		}
	}
}
