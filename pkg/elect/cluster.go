package elect

import (
	"context"
	"fmt"
	"time"

	"github.com/shardctl/shardctl/pkg/elect/internal/leases"
	"github.com/shardctl/shardctl/pkg/elect/protocol"
	"github.com/shardctl/shardctl/pkg/elect/store"
)

// Params are the protocol's constants in force.
func (e *Elector) Params() protocol.Params { return e.p }

// Track sets the groups whose locks this elector knows and shows in its View. Others can be locked all the same.
func (e *Elector) Track(ctx context.Context, groups ...string) error {
	return e.box.ask(ctx, func() { e.loop.cache.Track(groups...) })
}

// View returns the newest snapshot. It is cheap: the snapshot is shared.
func (e *Elector) View() *View { return e.view.Load() }

// Changed returns a channel that is closed when a newer View than the present one is there.
func (e *Elector) Changed() <-chan struct{} { return e.changed.Wait() }

// Ages says how long ago each session's newest heartbeat was first seen here. Heartbeats alone make no new View.
func (e *Elector) Ages(ctx context.Context) (map[string]time.Duration, error) {
	var ages map[string]time.Duration
	err := e.box.ask(ctx, func() {
		now := e.clock.Now()
		ages = e.loop.Peers.Ages(now)
		ages[e.loop.Session.ID()] = now.HolderElapsed(e.loop.Session.Machine().Acked)
	})
	if err != nil {
		return nil, err // the loop may still be at it
	}
	return ages, nil
}

// Note writes an event to the store: soon, best effort. Time and ID are filled in.
func (e *Elector) Note(ev Event) {
	e.box.post(func() { e.loop.Outbox.Note(ev, e.loop.Session.ID(), e.loop.Moment()) })
}

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
	return e.box.ask(ctx, func() {
		for _, key := range keys {
			lock, known := e.loop.cache.Lock(key)
			if !known {
				lock = Lock{Key: key}
			}
			if seen != nil && seen.Locks[key].Rev != lock.Rev {
				continue // a new view is on its way, and wakes the caller
			}
			e.loop.claim(lock, opts, run(key), nil)
		}
	})
}

// TakeReserved makes keys that are handed over to this session be claimed the moment that is seen, without a call of Claim:
// the giver waits, and every step on the way counts. run makes the work of a key; it is called in the elector's loop, must not
// block, and returns nil for a key that this instance does not know.
func (e *Elector) TakeReserved(ctx context.Context, run func(Key) Runnable) error {
	return e.box.ask(ctx, func() { e.loop.takes = run })
}

// HandOver is one key released on purpose.
type HandOver struct {
	Key    Key
	Next   string // the session it is reserved for; empty: for nobody
	Park   bool   // leave it out of the sweeps
	Reason Reason
}

// validate says why a release could never be written.
func (h HandOver) validate() error {
	for name, text := range map[string]string{"next": h.Next, "reason": string(h.Reason)} {
		if err := store.ValidateTexts(store.Doc{ID: text}); err != nil {
			return fmt.Errorf("release %.80q: %s: %w", h.Key, name, err)
		}
	}
	return nil
}

// GiveUp asks for the release of keys. It does not wait. A key that is being released already keeps its first
// reservation.
func (e *Elector) GiveUp(ctx context.Context, moves ...HandOver) error {
	for _, m := range moves {
		if err := m.validate(); err != nil {
			return err
		}
	}
	return e.box.ask(ctx, func() {
		for _, m := range moves {
			e.loop.Leases.Release(m.Key, leases.Release{Next: m.Next, Suspend: m.Park, Reason: m.Reason}, e.loop.Moment())
		}
	})
}

// Decline clears reservations that this instance cannot take, so that others need not wait.
func (e *Elector) Decline(ctx context.Context, keys ...Key) error {
	return e.box.ask(ctx, func() {
		for _, key := range keys {
			e.loop.Decline(key)
		}
	})
}
