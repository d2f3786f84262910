package elect

import (
	"github.com/shardctl/shardctl/pkg/elect/internal/engine"
	"github.com/shardctl/shardctl/pkg/elect/protocol"
)

// observer hands what has happened to leases, guard and hooks.
type observer struct{ *core }

var _ engine.Observer = observer{}

// Lease shows leases, and the watchdog, what they count from.
func (o observer) Lease(session string, open bool, acked protocol.Instant) {
	v := validity{session: session, open: open, acked: acked}
	if *o.lease.Load() != v {
		o.lease.Store(&v)
	}
}

// SessionOpening implements [engine.Observer].
func (o observer) SessionOpening(session string) {
	if o.cfg.Guard != nil {
		o.cfg.Guard.SessionOpening(session)
	}
}

// SessionOver implements [engine.Observer].
func (o observer) SessionOver(session string) {
	if o.cfg.Guard != nil {
		o.cfg.Guard.SessionOver(session)
	}
}

// Renewed implements [engine.Observer].
func (o observer) Renewed(session string, acked protocol.Instant) {
	if o.cfg.Guard != nil {
		o.cfg.Guard.Renewed(session, acked, o.p.T, o.p.Renew)
	}
}

// Acked implements [engine.Observer].
func (o observer) Acked(a engine.Acked) {
	o.cfg.Hooks.written(a)
	group := a.Is.Key.Group()
	switch a.Op {
	case protocol.Claim:
		o.cfg.Hooks.claimed(group, "won")
		if a.Moved() {
			o.cfg.Hooks.moved(group, a.Is.Reason)
		}
	case protocol.Release:
		o.cfg.Hooks.released(group, a.Is.Reason)
	case protocol.Advance, protocol.Report, protocol.NoOp:
	}
}

// Started implements [engine.Observer].
func (o observer) Started(s engine.Start, m protocol.Moment) { o.cfg.Hooks.started(s, m) }

// Claiming implements [engine.Observer].
func (o observer) Claiming(key Key) { o.cfg.Hooks.step(KeyClaiming, key) }

// Stopping implements [engine.Observer].
func (o observer) Stopping(key Key) { o.cfg.Hooks.step(KeyStopping, key) }

// EventsWritten implements [engine.Observer].
func (o observer) EventsWritten() {
	if o.cfg.Hooks.Events != nil {
		o.cfg.Hooks.Events()
	}
}

// ListPublished implements [engine.Observer].
func (o observer) ListPublished() {
	if o.cfg.Hooks.Lists != nil {
		o.cfg.Hooks.Lists()
	}
}

// Freed implements [engine.Observer].
func (o observer) Freed(key Key, refused bool) {
	if refused {
		o.cfg.Hooks.claimed(key.Group(), "lost")
	}
	o.cfg.Hooks.step(KeyFreed, key)
}
