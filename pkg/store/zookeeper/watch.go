package zookeeper

import (
	"context"
	"slices"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/internal/engine"
)

// retryWatch is the pause before a watch that failed looks again. When the connection comes back it looks at once.
const retryWatch = 200 * time.Millisecond

// Tail implements [engine.Watcher]. ZooKeeper's watches say only that something has changed, once, so what has changed is
// found by comparing caches. Which znodes are watched depends on the interest: the index of groups and of overrides, and
// bells for sessions and locks, which their writers ring. So heartbeats and claims wake no watcher. A lost connection or
// session costs a Resync, never the tail.
func (b *backend) Tail(ctx context.Context, in store.Interest, begun func(), emit func(engine.Event)) error {
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
	caches map[store.Kind]*cache
	emit   func(engine.Event)
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
			f.log.V(1).Info("A watch cannot look", "reason", f.translate("watch", err).Error())
		}
		f.putBack(todo)
		return false
	}
	found := f.takeFound()
	if todo.resync || found.resync {
		f.emit(engine.Event{Resync: true})
		return true
	}
	for _, e := range found.events {
		f.emit(e)
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
