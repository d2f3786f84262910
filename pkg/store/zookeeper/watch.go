package zookeeper

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/shardctl/shardctl/pkg/store"
)

// retryWatch is the pause before a watch that failed looks again. When the connection comes back it looks at once.
const retryWatch = 200 * time.Millisecond

// watch begins to watch. ZooKeeper's watches say only that something has changed, once, so what has changed is found by
// comparing caches. Which znodes are watched depends on the interest: the index of groups and of overrides, and bells
// for sessions and locks, which their writers ring. So heartbeats and claims wake no watcher.
func (h *hub) watch(ctx context.Context, in store.Interest) (<-chan store.Notification, error) {
	w := newWatcher(h.access, in)
	f := &follower{watcher: w, caches: h.caches, hub: h}
	h.add(w)
	if err := f.begin(ctx); err != nil {
		h.remove(w)
		return nil, err
	}
	n := store.NewNotifier()
	if !h.life.Go(func() {
		defer n.Close()
		defer h.remove(w)
		f.run(ctx, n)
	}) {
		h.remove(w)
		return nil, fmt.Errorf("%w: %w", store.ErrUnavailable, errClosed)
	}
	return n.C(), nil
}

// follower turns what a watcher has noted into notifications.
type follower struct {
	*watcher
	caches map[store.Kind]*cache
	hub    *hub
}

// begin sets all watches and reads all that later changes are compared with.
func (f *follower) begin(ctx context.Context) error {
	ctx, release := f.life.Bound(ctx)
	defer release()
	err := f.look(ctx, f.all())
	f.takeFound() // the first notification is a Resync
	return err
}

// run sends until ctx or the store ends.
func (f *follower) run(ctx context.Context, n *store.Notifier) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer f.life.OnEnd(cancel)()
	for {
		select {
		case <-ctx.Done():
			return
		case <-f.wake:
		}
		if !f.once(ctx, n) {
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

// once looks at what was noted and sends what it finds. False: it is to be tried again.
func (f *follower) once(ctx context.Context, n *store.Notifier) bool {
	todo := f.take()
	limited, release := f.life.Bound(ctx)
	defer release()
	if err := f.look(limited, todo); err != nil {
		if ctx.Err() == nil {
			f.log.V(1).Info("A watch cannot look", "reason", f.translate("watch", err).Error())
		}
		f.putBack(todo)
		return false
	}
	found := f.takeFound()
	if todo.resync || found.resync {
		n.Send(store.Notification{Resync: true})
		return true
	}
	for _, one := range found.notes {
		n.Send(one)
	}
	return true
}

// look sets watches that have fired, and then reads what they were about. What changes in between fires them again.
func (f *follower) look(ctx context.Context, todo todo) error {
	bells := make([]string, 0, len(todo.bells))
	for bell := range todo.bells {
		bells = append(bells, bell)
	}
	errs := make([]error, len(bells))
	each(len(bells), func(i int) {
		_, errs[i] = do(ctx, f.client, func(conn *zk.Conn) (bool, error) {
			there, _, _, err := conn.ExistsW(bells[i])
			return there, err
		})
	})
	if err := firstOf(errs); err != nil {
		return err
	}
	for _, kind := range store.Kinds() {
		if !slices.Contains(todo.kinds, kind) {
			continue
		}
		if err := f.caches[kind].refresh(ctx); err != nil {
			return err
		}
	}
	return nil
}
