package quorum

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/shardctl/shardctl/internal/clock"
	"github.com/shardctl/shardctl/pkg/store/driver"
)

// againAfter is how long a watch of one server waits before it begins again.
const againAfter = 200 * time.Millisecond

// Watch sends the notifications of all servers. They say where to look, and carry no documents: what one server holds
// may not be chosen. Each change comes from every server that accepts it, so from the last one of a majority as well.
func (s *Store) Watch(ctx context.Context, in driver.Interest) (<-chan driver.Notification, error) {
	if err := in.Validate(); err != nil {
		return nil, fmt.Errorf("watch: %w", err)
	}
	own := in
	if in.Groups != nil {
		own.Groups = slices.Clone(in.Groups)
		for _, g := range in.Groups {
			own.Groups = append(own.Groups, counterID(g))
		}
		if len(own.Groups) > driver.MaxInterest {
			own.Groups = nil
		}
	}
	w := &watch{store: s, in: own, notes: make(chan driver.Notification), began: make(chan error, len(s.members.all))}
	ctx, cancel := context.WithCancel(ctx)
	stop := s.members.life.OnEnd(cancel)
	begun := true
	for _, at := range s.members.all {
		begun = begun && s.members.life.Go(func() { w.follow(ctx, at) })
	}
	err := errClosed
	if begun {
		err = w.await(ctx)
	}
	out := driver.NewNotifier()
	if err == nil && !s.members.life.Go(func() { defer stop(); defer cancel(); w.forward(ctx, out) }) {
		err = errClosed
	}
	if err != nil {
		cancel()
		stop()
		return nil, unavailable("watch", err)
	}
	return out.C(), nil
}

// watch is one watcher of all servers.
type watch struct {
	store *Store
	in    driver.Interest
	notes chan driver.Notification
	began chan error // holds one for each server
}

// await waits until a majority is watched. One server that cannot be watched is enough to be polled.
func (w *watch) await(ctx context.Context) error {
	began := 0
	for range w.store.members.all {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case err := <-w.began:
			if errors.Is(err, driver.ErrCannotWatch) {
				return err
			}
			if err == nil {
				began++
			}
		}
		if began >= w.store.members.majority() {
			return nil
		}
	}
	return fmt.Errorf("%w: %d of %d servers can be watched", driver.ErrUnavailable, began, len(w.store.members.all))
}

// follow watches one server until ctx ends, again and again.
func (w *watch) follow(ctx context.Context, at *server) {
	for first := true; ctx.Err() == nil; first = false {
		var notes <-chan driver.Notification
		client, _, err := at.serving()
		if err == nil {
			notes, err = client.Watch(ctx, w.in)
		}
		if first {
			w.began <- err
		}
		for err == nil {
			n, open := <-notes
			if !open {
				break
			}
			select {
			case w.notes <- n:
			case <-ctx.Done():
			}
		}
		_ = clock.Sleep(ctx, againAfter) // the loop looks at ctx
	}
}

// forward hands notifications over, without their documents.
func (w *watch) forward(ctx context.Context, out *driver.Notifier) {
	defer out.Close()
	for {
		select {
		case <-ctx.Done():
			return
		case n := <-w.notes:
			if n.Kind == driver.KindGroup {
				n.ID = groupOf(n.ID)
			}
			if n.Resync || !isReserved(n.ID) {
				n.Doc = nil
				out.Send(n)
			}
		}
	}
}
