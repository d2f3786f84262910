package elect

import (
	"context"
	"fmt"
	"slices"

	"github.com/shardctl/shardctl/pkg/elect/protocol"
	"github.com/shardctl/shardctl/pkg/elect/store"
)

// Claim asks for keys, from what the View shows of their locks; run is called for each one won. It does not wait: how it
// went shows in the View. Keys that are held already, or may not be claimed, are left out.
func (e *Elector) Claim(ctx context.Context, keys []Key, opts LockOptions, run func(Key) Runnable) error {
	seen := opts.Seen
	opts.Seen, opts.adopt = nil, true // a key that is held must not keep an old view in memory
	for _, key := range keys {
		if err := checkClaim(key, opts); err != nil {
			return fmt.Errorf("claim %.80q: %w", key, err)
		}
	}
	return e.ask(ctx, func() {
		for _, key := range keys {
			lock := Lock{Key: key}
			if g := e.loop.mirror.groups[key.Group()]; g != nil {
				if known, ok := g.locks[key]; ok {
					lock = known
				}
			}
			if seen != nil && seen.Locks[key].Rev != lock.Rev {
				continue // a new view is on its way, and wakes whoever decides
			}
			e.claim(lock, opts, run(key), nil)
		}
	})
}

// TakeReserved makes keys that are handed over to this session be claimed the moment that is seen, without anybody asking:
// the giver waits, and every step on the way counts. run makes the work of a key; it is called in the elector's loop, must not
// block, and returns nil for a key that this instance does not know.
func (e *Elector) TakeReserved(ctx context.Context, run func(Key) Runnable) error {
	return e.ask(ctx, func() { e.loop.takes = run })
}

// takeReserved claims what was handed over. What the caps have no room for is left to whoever declines it.
func (e *Elector) takeReserved() {
	l := &e.loop
	keys := l.reserved
	l.reserved = nil
	if l.takes == nil {
		return
	}
	for _, key := range keys {
		g := l.mirror.groups[key.Group()]
		if g == nil {
			continue
		}
		lock := g.locks[key]
		if lock.Session != "" || lock.Next != l.session.id || l.keys[key] != nil {
			continue
		}
		if run := l.takes(key); run != nil {
			e.claim(lock, LockOptions{adopt: true}, run, nil)
		}
	}
}

// HandOver is one key given up on purpose.
type HandOver struct {
	Key    Key
	Next   string // the session it is reserved for; empty: for nobody
	Park   bool   // leave it out of the sweeps
	Reason Reason
}

// GiveUp asks for the release of keys. It does not wait. A key that is being given up already keeps its first
// reservation.
func (e *Elector) GiveUp(ctx context.Context, moves ...HandOver) error {
	return e.ask(ctx, func() {
		for _, m := range moves {
			if h := e.loop.keys[m.Key]; h != nil {
				e.giveUp(h, m.Next, m.Park, m.Reason)
			}
		}
	})
}

// Decline clears reservations that this instance cannot take, so that others need not wait.
func (e *Elector) Decline(ctx context.Context, keys ...Key) error {
	return e.ask(ctx, func() { e.decline(slices.Clone(keys)) })
}

func (e *Elector) decline(keys []Key) {
	var changes []store.Change
	for _, key := range keys {
		g := e.loop.mirror.groups[key.Group()]
		if g == nil {
			continue
		}
		lock, ok := g.locks[key]
		if !ok || lock.Session != "" || lock.Next != e.loop.session.id || e.loop.keys[key] != nil {
			continue
		}
		ifRev := lock.Rev
		lock.Next, lock.Rev, lock.WriterID = "", protocol.NextRev(ifRev, e.revs.now()), e.loop.session.stamp()
		changes = append(changes, store.Change{IfRev: ifRev, Doc: lock.Doc()})
		e.bump(key.Group())
	}
	if len(changes) == 0 {
		return
	}
	e.beside("decline", func(ctx context.Context) (func(), error) {
		outs, err := e.store.Apply(ctx, changes...)
		return func() {
			for _, key := range keys {
				e.loop.mirror.touch(key.Group())
			}
		}, firstError(outs, err)
	})
}
