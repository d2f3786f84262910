package elect

import (
	"context"
	"fmt"
	"time"

	"github.com/shardctl/shardctl/internal/cluster"
	"github.com/shardctl/shardctl/internal/record"
	"github.com/shardctl/shardctl/pkg/elect/internal/engine"
	"github.com/shardctl/shardctl/pkg/store/driver"
)

// Cluster is what a balancer and a status need of an elector, beside the locks. All methods may be called
// concurrently. Those that return an error return ErrNotRunning before Start, and ErrClosed once the elector has
// ended.
type Cluster interface {
	// View is the newest snapshot. It is cheap: the snapshot is shared, and nothing changes it.
	View() *cluster.View
	// Changed returns a channel that is closed when a newer View than the present one is there.
	Changed() <-chan struct{}
	// Done returns a channel that is closed when the elector has ended.
	Done() <-chan struct{}
	// Ages says how long ago each session's newest heartbeat was first seen here. Of a session that was not looked at
	// since, at most the time between two heartbeats counts as well. Heartbeats alone make no new View.
	Ages(ctx context.Context) (map[string]time.Duration, error)
	// Heartbeat is the time between two heartbeats of a session: a tenth of the lease duration.
	Heartbeat() time.Duration

	// Track sets the groups whose locks the View shows. Others can be locked all the same.
	Track(ctx context.Context, groups ...string) error
	// SetMember changes what this instance says of itself. Session, Rev, Instance, Opened and LeaseMS stay as they
	// are. New caps hold at once; keys above them are not released here.
	SetMember(ctx context.Context, m Member) error
	// Drain says draining in the session's document, and takes no new keys: others then leave this instance out
	// when they spread keys. What is held stays held until it is released, one by one or by Close. The View says
	// Draining once the document does, or after T/40 when the store does not answer.
	Drain(ctx context.Context) error

	// Claim asks for keys, from what the View shows of their locks; run is called for each one won. It does not
	// wait: how it went shows in the View. Keys that are held already, or may not be claimed, are left out.
	Claim(ctx context.Context, keys []Key, opts LockOptions, run func(Key) Runnable) error
	// TakeReserved makes keys that are handed over to this session be claimed the moment that is seen, without a call
	// of Claim. The giver waits, and every step on the way counts. run makes the work of a key. It is called in the
	// elector's loop, must not block, and returns nil for a key that this instance does not know.
	TakeReserved(ctx context.Context, run func(Key) Runnable) error
	// Release asks for the release of keys. It does not wait. A key that is being released already keeps its first
	// reservation.
	Release(ctx context.Context, keys ...cluster.HandOver) error
	// Decline clears reservations that this instance cannot take, so that others need not wait.
	Decline(ctx context.Context, keys ...Key) error
	// Note writes an event to the store: soon, best effort. Time and ID are filled in.
	Note(event record.Event)
}

// Cluster is the door to what a balancer and a status need in addition to the locks. It may be called before Start.
func (e *Elector) Cluster() Cluster { return clusterOf{e} }

// clusterOf implements [Cluster].
type clusterOf struct{ e *Elector }

func (c clusterOf) View() *cluster.View { return c.e.loop.View() }

func (c clusterOf) Changed() <-chan struct{} { return c.e.loop.Changed() }

func (c clusterOf) Done() <-chan struct{} { return c.e.Done() }

func (c clusterOf) Ages(ctx context.Context) (map[string]time.Duration, error) {
	var ages map[string]time.Duration
	err := c.e.loop.Ask(ctx, func(n *engine.Engine) {
		now := n.Moment().Now
		ages = n.Peers.All.Ages(now)
		ages[n.Self.ID()] = now.HolderElapsed(n.Self.Machine().Acked)
	})
	if err != nil {
		return nil, err // the loop may still be at it
	}
	return ages, nil
}

func (c clusterOf) Heartbeat() time.Duration { return c.e.loop.Params().Heartbeat }

func (c clusterOf) Track(ctx context.Context, groups ...string) error {
	return c.e.loop.Track(ctx, groups...)
}

func (c clusterOf) SetMember(ctx context.Context, m Member) error {
	if err := m.Validate(); err != nil {
		return err
	}
	return c.e.loop.Ask(ctx, func(n *engine.Engine) { n.SetMember(m) })
}

func (c clusterOf) Drain(ctx context.Context) error {
	return c.e.loop.Ask(ctx, func(n *engine.Engine) { n.Drain() })
}

func (c clusterOf) Claim(ctx context.Context, keys []Key, opts LockOptions, run func(Key) Runnable) error {
	seen := opts.Seen
	opts.Seen, opts.adopt = nil, true // a key that is held must not keep an old view in memory
	for _, key := range keys {
		if err := checkClaim(key, opts); err != nil {
			return fmt.Errorf("claim %.80q: %w", key, err)
		}
	}
	return c.e.loop.Ask(ctx, func(n *engine.Engine) {
		for _, key := range keys {
			lock := record.Lock{Key: key}
			if known := n.Lock(key); known != nil {
				lock = *known
			}
			if seen != nil && seen.Lock(key).Rev != lock.Rev {
				continue // a new view is on its way, and wakes the caller
			}
			c.e.claim(n, lock, opts, run(key), nil)
		}
	})
}

func (c clusterOf) TakeReserved(ctx context.Context, run func(Key) Runnable) error {
	return c.e.loop.Ask(ctx, func(*engine.Engine) { c.e.takes = run })
}

func (c clusterOf) Release(ctx context.Context, keys ...cluster.HandOver) error {
	for _, h := range keys {
		if err := checkRelease(h); err != nil {
			return err
		}
	}
	return c.e.loop.Ask(ctx, func(n *engine.Engine) {
		for _, h := range keys {
			n.Keys.Release(h, n.Moment())
		}
	})
}

func (c clusterOf) Decline(ctx context.Context, keys ...Key) error {
	return c.e.loop.Ask(ctx, func(n *engine.Engine) {
		for _, key := range keys {
			n.Decline(key)
		}
	})
}

func (c clusterOf) Note(event record.Event) {
	c.e.loop.Post(func(n *engine.Engine) { n.Outbox.Note(event, n.Moment()) })
}

// checkRelease says why a release could never be written. One such in a batch would hold up all the others in it.
func checkRelease(h cluster.HandOver) error {
	for name, text := range map[string]string{"next": h.Next, "reason": string(h.Reason), "message": h.Message} {
		if err := driver.ValidateTexts(driver.Doc{ID: text}); err != nil {
			return fmt.Errorf("release %.80q: %s: %w", h.Key, name, err)
		}
	}
	return nil
}
