package elect

import (
	"github.com/shardctl/shardctl/pkg/elect/internal/engine"
	"github.com/shardctl/shardctl/pkg/elect/protocol"
)

// observe hands what has happened to leases, guard and hooks.
func (c *core) observe(x engine.Event) {
	hooks, guard := c.cfg.Hooks, c.cfg.Guard
	switch x := x.(type) {
	case engine.LeaseChanged: // leases, and the watchdog, count from it
		c.lease.Store(&validity{session: x.Session, open: x.Open, acked: x.Acked})
	case engine.SessionOpening:
		if guard != nil {
			guard.SessionOpening(x.Session)
		}
	case engine.SessionOver:
		if guard != nil {
			guard.SessionOver(x.Session)
		}
	case engine.LeaseRenewed:
		if guard != nil {
			guard.Renewed(x.Session, x.Acked, c.p.T, c.p.Renew)
		}
	case engine.KeyClaiming:
		hooks.step(KeyClaiming, x.Key)
	case engine.Acked:
		hooks.acked(x)
	case engine.RunStarted:
		hooks.started(x.Start, x.At)
	case engine.KeyStopping:
		hooks.step(KeyStopping, x.Key)
	case engine.Freed:
		if x.Refused {
			hooks.claimed(x.Key.Group(), "lost")
		}
		hooks.step(KeyFreed, x.Key)
	case engine.EventsWritten:
		if hooks.Events != nil {
			hooks.Events()
		}
	case engine.ListPublished:
		if hooks.Lists != nil {
			hooks.Lists()
		}
	}
}

// acked reports an acknowledged write of a key.
func (h Hooks) acked(a engine.Acked) {
	h.written(a)
	group := a.Is.Key.Group()
	switch a.Op {
	case protocol.Claim:
		h.claimed(group, "won")
		if a.Moved() {
			h.moved(group, a.Is.Reason)
		}
	case protocol.Release:
		h.released(group, a.Is.Reason)
	case protocol.Advance, protocol.Report, protocol.NoOp:
	}
}
