package elect

import (
	"context"
	"errors"
	"time"

	"github.com/shardctl/shardctl/pkg/elect/protocol"
	"github.com/shardctl/shardctl/pkg/elect/store"
)

// watch takes the store's hints for as long as there are any; where the store has none, the counters are polled.
func (e *Elector) watch() {
	e.work.Go(func() {
		told := false // the first of a row of failures is told: without a watch all works, only later
		for e.loop.ctx.Err() == nil {
			session := e.lease.Load().session
			if session == "" {
				if !e.pause(e.p.Retry) {
					return
				}
				continue
			}
			ctx, cancel := context.WithCancel(e.loop.ctx)
			slow := time.AfterFunc(e.p.Op, cancel) // opening it is a store operation as any other
			hints, err := e.store.Watch(ctx, store.Interest{Session: session})
			slow.Stop()
			if errors.Is(err, store.ErrCannotWatch) {
				cancel()
				return
			}
			switch {
			case err == nil:
				told = false
				e.follow(ctx, session, hints)
			case !told && e.loop.ctx.Err() == nil:
				told = true
				e.log.Error(err, "Cannot watch the store: looking now and then until it can")
			}
			cancel()
			e.post(func() { e.loop.mirror.watching = false })
			if !e.pause(e.p.Retry) {
				return
			}
		}
	})
}

// follow hands hints to the loop until the watch breaks or the session is another.
func (e *Elector) follow(ctx context.Context, session string, hints <-chan store.Notification) {
	for {
		select {
		case hint, ok := <-hints:
			if !ok {
				return
			}
			arrived := e.clock.Now()
			e.post(func() { e.hinted(hint, arrived) })
			if e.lease.Load().session != session {
				return
			}
		case <-ctx.Done():
			return
		}
	}
}

// hinted looks where a hint points.
func (e *Elector) hinted(hint store.Notification, arrived protocol.Instant) {
	m := &e.loop.mirror
	switch {
	case hint.Resync:
		m.watching = true
		m.wantFull, m.wantCounts = !m.loaded || m.wantFull, true
		m.wantMembers, m.wantWishes = true, true
	case hint.Kind == store.KindSession && hint.Doc != nil:
		e.seePeer(*hint.Doc, false, arrived)
	case hint.Kind == store.KindLock && hint.Doc != nil:
		e.mirrorDoc(*hint.Doc)
	case hint.Kind == store.KindOverride:
		m.wantWishes = true
	case hint.Kind == store.KindGroup && hint.Doc != nil && hint.Doc.Count == m.counts[hint.ID]:
	default:
		m.wantCounts = true
	}
}

// pause waits for d. It reports false when everything is over.
func (e *Elector) pause(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-e.loop.ctx.Done():
		return false
	}
}
