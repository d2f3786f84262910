package etcd

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/internal/adapter"
)

// feed is the notes as notifications.
type feed struct {
	parts
	life    *adapter.Life
	timeout time.Duration

	opening chan struct{} // holds a value while a stream is opened
	mu      sync.Mutex    // guards what follows, and the watchers of streams
	current *stream       // nil: no one watches
}

// watcher is one Watch.
type watcher struct {
	*store.Notifier
	in store.Interest
}

func newFeed(p parts, life *adapter.Life, timeout time.Duration) *feed {
	return &feed{parts: p, life: life, timeout: timeout, opening: make(chan struct{}, 1)}
}

// join adds a watcher to the stream there is, or opens one for it.
func (f *feed) join(ctx context.Context, in store.Interest) (<-chan store.Notification, error) {
	select {
	case f.opening <- struct{}{}:
		defer func() { <-f.opening }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	w := &watcher{store.NewNotifier(), in}
	s := f.add(w)
	if s == nil {
		var err error
		if s, err = f.open(ctx, w); err != nil {
			return nil, err
		}
	}
	context.AfterFunc(ctx, func() { f.leave(s, w) })
	return w.C(), nil
}

// add adds a watcher to the stream there is; nil: there is none.
func (f *feed) add(w *watcher) *stream {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.current != nil {
		f.current.watchers[w] = struct{}{}
	}
	return f.current
}

// open begins a stream with its first watcher.
func (f *feed) open(ctx context.Context, w *watcher) (*stream, error) {
	bound, release := f.life.Bound(ctx)
	defer release()
	running, end := context.WithCancel(context.WithoutCancel(ctx))
	s := &stream{feed: f, running: running, end: end, watchers: map[*watcher]struct{}{w: {}}}
	if err := s.open(bound, len(f.link.endpoints.all)); err != nil {
		end()
		s.close() // etcd's client goes on with the last attempt otherwise, until it is closed itself
		return nil, err
	}
	f.mu.Lock()
	f.current = s
	f.mu.Unlock()
	if !f.life.Go(func() { //nolint:contextcheck // it outlives the call that opens it
		defer f.life.OnEnd(end)()
		defer f.finish(s)
		s.follow()
	}) {
		f.finish(s)
		return nil, fmt.Errorf("%w: %w", store.ErrUnavailable, adapter.ErrClosed)
	}
	return s, nil
}

// leave ends a watcher, and its stream with the last one.
func (f *feed) leave(s *stream, w *watcher) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, there := s.watchers[w]; !there {
		return
	}
	delete(s.watchers, w)
	w.Close()
	if len(s.watchers) == 0 {
		f.over(s)
	}
}

// finish ends a stream and all its watchers.
func (f *feed) finish(s *stream) {
	f.mu.Lock()
	for w := range s.watchers {
		w.Close()
	}
	clear(s.watchers)
	f.over(s)
	f.mu.Unlock()
	s.close()
}

// over wants the feed locked.
func (f *feed) over(s *stream) {
	s.end()
	if f.current == s {
		f.current = nil
	}
}

// notify sends a notification to those watchers of a stream who are interested.
func (f *feed) notify(s *stream, n store.Notification, about store.Doc) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for w := range s.watchers {
		if n.Resync || w.in.Wants(about) {
			w.Send(n)
		}
	}
}
