package elect

import (
	"errors"

	"github.com/shardctl/shardctl/pkg/elect/internal/cache"
	"github.com/shardctl/shardctl/pkg/elect/internal/leases"
	"github.com/shardctl/shardctl/pkg/elect/internal/liveness"
	"github.com/shardctl/shardctl/pkg/elect/internal/session"
	"github.com/shardctl/shardctl/pkg/elect/protocol"
	"github.com/shardctl/shardctl/pkg/elect/record"
	"github.com/shardctl/shardctl/pkg/elect/store"
)

var errStoreForgot = errors.New("the store shows the own session below a revision it had acknowledged")

// carrySession does what the own session wants done.
func (n *node) carrySession(r session.Ready) {
	id := n.session.ID()
	n.page.dirty = n.page.dirty || r.Changed
	if r.Forgot {
		n.page.forgot, n.page.dirty = n.clock.Now(), true
		n.log.Error(errStoreForgot, "Two runs of a key are possible for T/2: restore backups only with all replicas stopped", "session", id)
	}
	if r.Over != nil {
		n.sessionOver(r.Over)
	}
	if r.Opening != "" {
		n.sessionOpening(r.Opening)
	}
	n.publishLease()
	if r.Renewed != nil {
		if n.cfg.Guard != nil {
			n.cfg.Guard.Renewed(id, *r.Renewed, n.p)
		}
		n.peers.HeartbeatAcked(n.moment())
	}
	if r.Cancelled && n.runs.count() > 0 {
		n.log.Info("Cannot renew the lease: cancelling tasks", "session", id)
	}
	if r.Lost {
		n.log.Info("The session was ended by another", "session", id)
	}
	for _, kind := range r.Keys {
		n.leases.All(kind, n.moment())
	}
	if w := r.Write; w != nil {
		n.calls.heartbeat(*w, n.memberAnswered(w.Member), func(out store.Outcome) {
			status := record.StatusOf(out)
			if status == protocol.Applied && w.Change.Doc.State != string(record.Live) {
				n.outbox.increment(n.cache.Groups(), n.clock.Now())
			}
			n.session.Answered(id, status, n.moment())
		})
	}
	if r.Read {
		n.calls.readSession(id, func(doc *store.Doc, _ *record.Session, ok bool, _ protocol.Instant) {
			n.session.Found(id, doc, ok, n.moment())
		})
	}
	if r.Member != nil {
		answered := n.memberAnswered(r.Member)
		n.calls.apply("member", []store.Change{*r.Member}, func(outs []store.Outcome, malformed bool) { answered(outs[0], malformed) })
	}
}

func (n *node) sessionOver(over *session.Over) {
	if n.cfg.Guard != nil {
		n.cfg.Guard.SessionOver(over.Session)
	}
	n.outbox.increment(n.cache.Groups(), n.clock.Now())
	n.log.Info("Session ended", "session", over.Session)
	n.peers.Ended(over.Session, over.Instance, over.Acked, n.clock.Now())
}

func (n *node) sessionOpening(id string) {
	if n.cfg.Guard != nil {
		n.cfg.Guard.SessionOpening(id)
	}
	n.log.Info("Opening a session", "session", id)
	ids := n.session.IDs()
	n.peers.Begin(ids)
	n.leases.Begin(leases.Self{IDs: ids, Instance: n.session.Member().Instance})
	n.cache.Begin(id)
	n.audit.Begin()
}

// publishLease shows leases, and the watchdog, what they count from.
func (n *node) publishLease() {
	m := n.session.Machine()
	v := validity{session: n.session.ID(), open: m.Phase == protocol.Open, acked: m.Acked}
	if *n.lease.Load() != v {
		n.lease.Store(&v)
	}
}

func (n *node) memberAnswered(change *store.Change) func(store.Outcome, bool) {
	return func(out store.Outcome, malformed bool) {
		if n.session.MemberAnswered(*change, out, malformed, n.clock.Now()) {
			n.outbox.counters.Increment(cache.CounterMembers, n.clock.Now())
		}
	}
}

// carryPeers does what the other sessions' states want done.
func (n *node) carryPeers(r liveness.Ready) {
	id := n.session.ID()
	n.page.dirty = n.page.dirty || r.Changed
	if r.New {
		n.cache.LookAtMembers()
	}
	if r.Outage > 0 {
		n.log.Info("The store answers again: all ages start again", "duration", r.Outage)
	}
	for _, behind := range r.Skewed {
		n.cache.Skewed(behind)
	}
	for _, death := range r.Died {
		n.log.Info("Session is dead", "session", death.Session, "peer", death.Instance)
		n.waiters.WakeAll()
		if death.Own {
			n.outbox.increment(n.cache.Groups(), n.clock.Now())
			n.outbox.note(Event{Type: "Died", From: death.Instance, Message: death.Cause}, id, n.moment())
		}
	}
	for _, over := range r.Over {
		if n.cfg.Guard != nil {
			n.cfg.Guard.SessionOver(over)
		}
	}
	for _, wanted := range r.Reads {
		n.calls.readSession(wanted, func(_ *store.Doc, s *record.Session, ok bool, arrived protocol.Instant) {
			n.peers.Found(wanted, s, ok, arrived, n.moment())
		})
	}
	for _, k := range r.Kills {
		if k.First {
			n.log.Info("Marking a session dead", "session", k.Session, "peer", k.Instance, "cause", k.Cause)
		}
		n.calls.apply("kill", []store.Change{k.Change}, func(outs []store.Outcome, _ bool) {
			n.peers.Answered(k.Session, record.StatusOf(outs[0]), n.moment())
		})
	}
	if r.Look != nil {
		n.calls.look(*r.Look, func(sessions []record.Session, ok bool, arrived protocol.Instant) {
			n.peers.Looked(sessions, ok, arrived, n.moment())
		})
	}
}
