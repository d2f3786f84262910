package guard

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/shardctl/shardctl/internal/electing"
	"github.com/shardctl/shardctl/internal/guard/wire"
	"github.com/shardctl/shardctl/internal/protocol"
	"github.com/shardctl/shardctl/pkg/elect"
)

// keeping is how the guard of a dead worker holds the keys of what it cannot end, such as a setuid program's processes
// where there are no control groups. It stands in for the worker: it keeps the session, and frees the keys of which
// nothing is left. That goes on until those processes end by themselves, or others have ended the session.
type keeping struct {
	busy    bool // a call is under way
	failing bool // the last one failed, which was said
	began   bool // which was said
	next    protocol.Instant
}

// heldSession is a session to keep, with the keys that others must not have.
type heldSession struct {
	uuid string
	keys map[elect.Key]bool
}

// kept is how keeping sessions went: when that began, and each session's error, nil for success.
type kept struct {
	began    protocol.Instant
	sessions map[string]error
}

// mustKeep says whether the worker has ended and something of it cannot be ended.
func (c *core) mustKeep() bool { return c.shutdown.worker.reaped && len(c.unendable()) > 0 }

// unendable are the sessions of which something may not be signalled, in order.
func (c *core) unendable() []string {
	found := map[string]bool{}
	for _, command := range c.commands.ending {
		if len(command.traces.refused) > 0 && c.leases.sessions[command.session] != nil {
			found[command.session] = true
		}
	}
	return slices.Sorted(maps.Keys(found))
}

// keep has sessions kept when that is due.
func (c *core) keep(now protocol.Instant) []effect {
	if !c.mustKeep() || c.keeping.busy || !reached(c.keeping.next, now) {
		return nil
	}
	c.keeping.busy = true
	var effects []effect
	if !c.keeping.began {
		c.keeping.began = true
		text := "Processes of tasks may not be signalled: holding their keys until they end, or until a second signal"
		effects = append(effects, note{level: levelError, text: text})
	}
	held := keepSessions{now: now, limit: max(c.shutdown.lease/6, time.Second/2)}
	for _, uuid := range c.unendable() {
		keys := c.leases.remotely(uuid, now)
		for _, command := range c.commands.byID {
			if command.session == uuid {
				keys[command.key] = true
			}
		}
		held.sessions = append(held.sessions, heldSession{uuid, keys})
	}
	return append(effects, held)
}

// kept takes how that went.
func (c *core) kept(k kept, now protocol.Instant) []effect {
	c.keeping.busy = false
	c.keeping.next = k.began.Add(c.shutdown.lease / 10)
	var effects []effect
	failing := false
	for _, uuid := range slices.Sorted(maps.Keys(k.sessions)) {
		err := k.sessions[uuid]
		if err == nil {
			c.shutdown.keptAt = k.began
			c.leases.renew(uuid, deadlines(wire.DeadlinesFrom(k.began, c.shutdown.lease, c.shutdown.lease*3/4)))
			continue
		}
		values := []any{"session", uuid, "error", err.Error()}
		if errors.Is(err, electing.ErrDead) {
			c.leases.close(uuid)
			text := "The session has ended: others may run what cannot be ended here"
			effects = append(effects, note{level: levelError, text: text, values: values})
			continue
		}
		failing = true
		c.keeping.next = now.Add(c.shutdown.lease / 40)
		if !c.keeping.failing {
			text := "Could not keep the session: trying again"
			effects = append(effects, note{level: levelError, text: text, values: values})
		}
	}
	c.keeping.failing = failing
	return effects
}

// remotely are the keys of a session that an endpoint or the application may still work on.
func (l *leases) remotely(uuid string, now protocol.Instant) map[elect.Key]bool {
	keys := map[elect.Key]bool{}
	for key, until := range l.sessions[uuid].remote {
		keys[key] = killerLeft(until, now) > 0
	}
	for key := range l.sessions[uuid].assigned {
		keys[key] = keys[key] || killerLeft(l.applicationValid, now) > 0
	}
	return keys
}

// keepSessions keeps sessions beside the loop, until ctx ends. How that went goes to core.kept. Each is tried for as
// long as a request to the store may take, a sixth of the lease.
func (x *executor) keepSessions(ctx context.Context) {
	for {
		var e keepSessions
		select {
		case e = <-x.toKeep:
		case <-ctx.Done():
			return
		}
		k := kept{e.now, map[string]error{}}
		for _, s := range e.sessions {
			limited, cancel := context.WithTimeout(ctx, e.limit)
			k.sessions[s.uuid] = x.keep(limited, s.uuid, func(key elect.Key) bool { return s.keys[key] })
			cancel()
		}
		x.kept <- k // of capacity one, and there is one call at a time
	}
}

// keepNothing is for a guard that has no store.
func keepNothing(context.Context, string, func(elect.Key) bool) error {
	return fmt.Errorf("there is no store: %w", electing.ErrDead)
}
