package elect

import (
	"context"
	"errors"
	"time"

	"github.com/shardctl/shardctl/pkg/elect/internal/engine"
	"github.com/shardctl/shardctl/pkg/internal/sleep"
	"github.com/shardctl/shardctl/pkg/store"
)

// watcher hands the store's notifications to the loop.
type watcher struct {
	calls    *calls
	notified func(engine.Notification) // run in the loop
}

// follow takes the store's notifications for as long as there are any; where the store has none, the counters are
// polled.
func (w *watcher) follow() {
	n := w.calls
	n.work.Go(func() {
		logged := false // the first of a row of failures is logged: without a watch all works, only later
		for n.ctx.Err() == nil {
			session := n.lease.Load().session
			ctx, cancel := context.WithCancel(n.ctx)
			slow := time.AfterFunc(n.p.Op, cancel) // opening it is a store operation as any other
			notifications, err := n.store.Watch(ctx, store.Interest{Session: session})
			slow.Stop()
			if errors.Is(err, store.ErrCannotWatch) {
				cancel()
				return
			}
			switch {
			case err == nil:
				if logged {
					logged = false
					n.log.Info("The store is watched again")
				}
				w.deliver(ctx, session, notifications)
			case !logged && n.ctx.Err() == nil:
				logged = true
				n.log.Error(err, "Cannot watch the store: looking now and then until it can")
			}
			cancel()
			n.box.post(func() { w.notified(engine.Notification{Broken: true}) })
			if !w.pause(n.p.Retry) {
				return
			}
		}
	})
}

// deliver hands notifications to the loop until the watch breaks or the session is another.
func (w *watcher) deliver(ctx context.Context, session string, notifications <-chan store.Notification) {
	for {
		select {
		case notification, ok := <-notifications:
			if !ok {
				return
			}
			decoded := w.decode(notification)
			w.calls.box.post(func() { w.notified(decoded) })
			if w.calls.lease.Load().session != session {
				return
			}
		case <-ctx.Done():
			return
		}
	}
}

// decode reads what a notification says, outside the loop.
func (w *watcher) decode(x store.Notification) engine.Notification {
	n := engine.Notification{Kind: x.Kind, ID: x.ID, Resync: x.Resync, Arrived: w.calls.clock.Now()}
	switch {
	case x.Resync || x.Doc == nil:
	case x.Kind == store.KindSession:
		s := w.calls.decodeSession(*x.Doc)
		n.Session = &s
	case x.Kind == store.KindLock:
		n.Lock = w.calls.found(x.Doc)
	case x.Kind == store.KindGroup:
		n.Counter = x.Doc
	case x.Kind == store.KindMutex:
		n.Mutex = w.calls.foundMutex(x.Doc)
	}
	return n
}

// pause waits for d. It reports false when everything is over.
func (w *watcher) pause(d time.Duration) bool { return sleep.For(w.calls.ctx, d) == nil }
