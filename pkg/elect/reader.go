package elect

import (
	"context"
	"errors"
	"time"

	"github.com/shardctl/shardctl/pkg/elect/internal/cache"
	"github.com/shardctl/shardctl/pkg/elect/protocol"
	"github.com/shardctl/shardctl/pkg/elect/record"
	"github.com/shardctl/shardctl/pkg/elect/store"
)

// read does what a plan of the cache says: the counters first, then what they say has changed. It runs outside the loop.
func (c *core) read(ctx context.Context, p cache.Plan) (cache.Reading, error) {
	r := cache.Reading{Counts: map[string]int64{}, Locks: map[string][]record.Lock{}}
	counters, err := c.list(ctx, store.KindGroup, store.Query{NoBody: true})
	if err != nil {
		return r, err
	}
	r.Clock = counters.Now
	for _, d := range counters.Docs {
		r.Counts[d.ID] = d.Count
	}
	for _, name := range p.Groups() {
		from, ok := p.From(name, r.Counts[name], r.Clock)
		if !ok {
			continue
		}
		docs, err := c.listLocks(ctx, store.Query{Group: name, MinRev: from})
		if err != nil {
			return r, err
		}
		r.Locks[name] = c.decodeLocks(docs)
	}
	if p.Members || p.Full || p.Changed(cache.CounterMembers, r.Counts[cache.CounterMembers]) {
		if err := c.readMembers(ctx, &r); err != nil {
			return r, err
		}
	}
	if p.Overrides || p.Full || p.Changed(cache.CounterOverrides, r.Counts[cache.CounterOverrides]) {
		reply, err := c.list(ctx, store.KindOverride, store.Query{})
		if err != nil {
			return r, err
		}
		r.Overrode = true
		for _, d := range reply.Docs {
			o, err := record.OverrideFrom(d)
			c.malformed.note(c.log, d, err)
			r.Overrides = append(r.Overrides, o)
		}
	}
	return r, nil
}

func (c *core) readMembers(ctx context.Context, r *cache.Reading) error {
	reply, err := c.list(ctx, store.KindMember, store.Query{})
	if err != nil {
		return err
	}
	r.Members = make(map[string]record.Member, len(reply.Docs))
	for _, d := range reply.Docs {
		m, err := record.MemberFrom(d)
		if err != nil { // its owner will write it again; half of its caps would be none
			c.malformed.note(c.log, d, err)
			r.Broken = append(r.Broken, d.ID)
			continue
		}
		r.Members[d.ID] = m
	}
	return nil
}

// follow takes the store's notifications for as long as there are any; where the store has none, the counters are polled.
func (n *node) follow() {
	n.calls.work.Go(func() {
		logged := false // the first of a row of failures is logged: without a watch all works, only later
		for n.calls.ctx.Err() == nil {
			session := n.lease.Load().session
			ctx, cancel := context.WithCancel(n.calls.ctx)
			slow := time.AfterFunc(n.p.Op, cancel) // opening it is a store operation as any other
			notifications, err := n.store.Watch(ctx, store.Interest{Session: session})
			slow.Stop()
			if errors.Is(err, store.ErrCannotWatch) {
				cancel()
				return
			}
			switch {
			case err == nil:
				logged = false
				n.deliver(ctx, session, notifications)
			case !logged && n.calls.ctx.Err() == nil:
				logged = true
				n.log.Error(err, "Cannot watch the store: looking now and then until it can")
			}
			cancel()
			n.box.post(func() { n.cache.Watching(false) })
			if !n.pause(n.p.Retry) {
				return
			}
		}
	})
}

// deliver hands notifications to the loop until the watch breaks or the session is another.
func (n *node) deliver(ctx context.Context, session string, notifications <-chan store.Notification) {
	for {
		select {
		case notification, ok := <-notifications:
			if !ok {
				return
			}
			n.box.post(n.notified(notification, n.clock.Now()))
			if n.lease.Load().session != session {
				return
			}
		case <-ctx.Done():
			return
		}
	}
}

// notified decodes a notification, and returns what looks where it points.
func (n *node) notified(note store.Notification, arrived protocol.Instant) func() {
	switch {
	case note.Resync:
		return func() { n.cache.Watching(true) }
	case note.Kind == store.KindSession && note.Doc != nil:
		s := n.decodeSession(*note.Doc)
		return func() { n.peers.See(s, false, arrived, n.moment()) }
	case note.Kind == store.KindLock && note.Doc != nil:
		lock := n.decodeLock(*note.Doc)
		return func() { n.cache.Put(lock) }
	case note.Kind == store.KindOverride:
		return n.cache.LookAtOverrides
	case note.Kind == store.KindGroup && note.Doc != nil:
		return func() {
			if !n.cache.Counted(note.ID, note.Doc.Count) {
				n.cache.Look()
			}
		}
	}
	return n.cache.Look
}

// pause waits for d. It reports false when everything is over.
func (n *node) pause(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-n.calls.ctx.Done():
		return false
	}
}
