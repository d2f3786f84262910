package node

import (
	"errors"

	"github.com/shardctl/shardctl/pkg/elect/internal/cache"
	"github.com/shardctl/shardctl/pkg/elect/internal/leases"
	"github.com/shardctl/shardctl/pkg/elect/internal/liveness"
	"github.com/shardctl/shardctl/pkg/elect/internal/session"
	"github.com/shardctl/shardctl/pkg/elect/protocol"
	"github.com/shardctl/shardctl/pkg/elect/record"
	"github.com/shardctl/shardctl/pkg/store"
)

var errStoreForgot = errors.New("the store shows the own session below a revision it had acknowledged")

// carrySession does what the own session wants done.
func (n *Node) carrySession(r session.Ready) {
	id := n.Session.ID()
	n.changes.View, n.changes.Sessions = n.changes.View || r.Changed, n.changes.Sessions || r.Changed
	if r.Forgot {
		n.changes.Forgot, n.changes.View = n.clock.Now(), true
		n.log.Error(
			errStoreForgot, "Two runs of a key are possible for T/2: restore backups only with all replicas stopped",
			"session", id,
		)
	}
	if r.Over != nil {
		n.sessionOver(r.Over)
	}
	if r.Opening != "" {
		n.sessionOpening(r.Opening)
	}
	machine := n.Session.Machine()
	n.observer.Lease(id, machine.Phase == protocol.Open, machine.Acked)
	if r.Renewed != nil {
		n.observer.Renewed(id, *r.Renewed)
		n.Peers.HeartbeatAcked(n.Moment())
	}
	if r.Cancelled && n.runs.Count() > 0 {
		n.log.Info("Cannot renew the lease: cancelling tasks", "session", id)
	}
	if r.Lost {
		n.log.Info("The session was ended by another", "session", id)
	}
	for _, kind := range r.Keys {
		n.Leases.All(kind, n.Moment())
		n.expireMutexes(kind)
	}
	if w := r.Write; w != nil {
		n.store.Heartbeat(*w, n.memberAnswered(w.Member), func(out store.Outcome) {
			status := record.StatusOf(out)
			if status == protocol.Applied && w.Change.Doc.State != string(record.Live) {
				n.Outbox.increment(n.cache.Groups(), n.clock.Now())
			}
			n.Session.Answered(id, status, n.Moment())
		})
	}
	if r.Read {
		n.store.ReadSession(id, func(doc *store.Doc, _ *record.Session, ok bool, _ protocol.Instant) {
			n.Session.Found(id, doc, ok, n.Moment())
		})
	}
	if r.Member != nil {
		answered := n.memberAnswered(r.Member)
		n.store.Apply(
			"member", []store.Change{*r.Member},
			func(outs []store.Outcome, malformed bool) { answered(outs[0], malformed) },
		)
	}
}

func (n *Node) sessionOver(over *session.Over) {
	now := n.clock.Now()
	n.observer.SessionOver(over.Session)
	n.Outbox.increment(n.cache.Groups(), now)
	n.log.Info("Session ended", "session", over.Session)
	if !n.Session.Closing() {
		n.Outbox.noteOf(over.Session, record.Event{
			Type: record.EventLeaseLost, From: over.Instance, Message: "it could not renew its lease in time",
		}, n.Moment())
	}
	n.Peers.Ended(over.Session, over.Instance, over.Acked, now)
}

func (n *Node) sessionOpening(id string) {
	n.observer.SessionOpening(id)
	n.log.Info("Opening a session", "session", id)
	ids := n.Session.IDs()
	n.Peers.Begin(ids)
	n.Leases.Begin(leases.Self{IDs: ids, Instance: n.Session.Member.Record().Instance})
	n.Mutexes.Begin(ids, n.Moment())
	n.cache.Begin(id)
	n.audit.audit.Begin()
}

func (n *Node) memberAnswered(change *store.Change) func(store.Outcome, bool) {
	return func(out store.Outcome, malformed bool) {
		now := n.clock.Now()
		if n.Session.Member.Answered(*change, out, malformed, now) {
			n.Outbox.counters.Increment(cache.CounterMembers, now)
		}
	}
}

// carryPeers does what the other sessions' states want done.
func (n *Node) carryPeers(r liveness.Ready) {
	n.changes.View, n.changes.Sessions = n.changes.View || r.Changed, n.changes.Sessions || r.Changed
	if r.New {
		n.cache.LookAtMembers()
	}
	if r.Outage > 0 {
		n.log.Info("All ages start again: the store was away", "duration", r.Outage)
	}
	for _, behind := range r.Skewed {
		n.cache.Skewed(behind)
	}
	for _, death := range r.Died {
		n.log.Info("Session is dead", "session", death.Session, "peer", death.Instance)
		n.Waiters.WakeAll()
		n.Mutexes.Died(death.Session, n.Moment())
		if death.Own {
			m := n.Moment()
			n.Outbox.increment(n.cache.Groups(), m.Now)
			n.Outbox.Note(record.Event{Type: record.EventDied, From: death.Instance, Message: death.Cause}, m)
		}
	}
	for _, session := range r.Met {
		n.Mutexes.Alive(session, n.Moment())
	}
	for _, over := range r.Over {
		n.observer.SessionOver(over)
	}
	for _, wanted := range r.Reads {
		n.store.ReadSession(wanted, func(_ *store.Doc, s *record.Session, ok bool, arrived protocol.Instant) {
			n.Peers.Found(wanted, s, ok, arrived, n.Moment())
		})
	}
	for _, k := range r.Kills {
		if k.First {
			n.log.Info("Marking a session dead", "session", k.Session, "peer", k.Instance, "reason", k.Cause)
		}
		n.store.Apply("kill", []store.Change{k.Change}, func(outs []store.Outcome, _ bool) {
			n.Peers.Answered(k.Session, record.StatusOf(outs[0]), n.Moment())
		})
	}
	if r.Look != nil {
		n.store.Look(*r.Look, func(sessions []record.Session, ok bool, arrived protocol.Instant) {
			n.Peers.Looked(sessions, ok, arrived, n.Moment())
		})
	}
}
