package engine

import (
	"context"
	"errors"
	"time"

	"github.com/shardctl/shardctl/pkg/internal/sleep"
	"github.com/shardctl/shardctl/pkg/store"
)

// watcher hands the store's notifications to the loop.
type watcher struct {
	calls    *Requests
	notified func(Notification) // run in the loop
}

// follow takes the store's notifications for as long as there are any; where the store has none, the counters are
// polled.
func (w *watcher) follow() {
	n := w.calls
	n.Work.Go(func() {
		logged := false // the first of a row of failures is logged: without a watch all works, only later
		for n.Ctx.Err() == nil {
			session := n.Lease.Load().Session
			ctx, cancel := context.WithCancel(n.Ctx)
			slow := time.AfterFunc(n.P.Op, cancel) // opening it is a store operation as any other
			notifications, err := n.Store.Watch(ctx, store.Interest{Session: session})
			slow.Stop()
			if errors.Is(err, store.ErrCannotWatch) {
				cancel()
				return
			}
			switch {
			case err == nil:
				if logged {
					logged = false
					n.Log.Info("The store is watched again")
				}
				w.deliver(ctx, session, notifications)
			case !logged && n.Ctx.Err() == nil:
				logged = true
				n.Log.Error(err, "Cannot watch the store: looking now and then until it can")
			}
			cancel()
			n.Box.post(func() { w.notified(Notification{Broken: true}) })
			if !w.pause(n.P.Retry) {
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
			w.calls.Box.post(func() { w.notified(decoded) })
			if w.calls.Lease.Load().Session != session {
				return
			}
		case <-ctx.Done():
			return
		}
	}
}

// decode reads what a notification says, outside the loop.
func (w *watcher) decode(x store.Notification) Notification {
	n := Notification{Kind: x.Kind, ID: x.ID, Resync: x.Resync, Arrived: w.calls.Clock.Now()}
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
func (w *watcher) pause(d time.Duration) bool { return sleep.For(w.calls.Ctx, d) == nil }
