package elect

import (
	"context"
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
	if r.Write != nil {
		n.heartbeat(id, *r.Write)
	}
	if r.Read {
		n.readSession(id)
	}
	if r.Member != nil {
		n.calls.apply("member", []store.Change{*r.Member}, n.memberAnswered(*r.Member))
	}
}

func (n *node) sessionOver(over *session.Over) {
	if n.cfg.Guard != nil {
		n.cfg.Guard.SessionOver(over.Session)
	}
	n.incrementAll()
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

// heartbeat writes the session's document, the first time after the member's.
func (n *node) heartbeat(id string, w session.Write) {
	sent := n.clock.Now()
	n.calls.do("heartbeat", func(ctx context.Context) (func(), error) {
		var announced func()
		if w.Member != nil {
			outs, err := n.store.Apply(ctx, *w.Member)
			if err != nil {
				outs = make([]store.Outcome, 1)
			}
			announced = func() { n.memberAnswered(*w.Member)(outs, err != nil) }
		}
		outs, err := n.store.Apply(ctx, w.Change)
		if err != nil {
			outs = make([]store.Outcome, 1)
		}
		err = firstError(outs, err)
		if n.cfg.Hooks.Beat != nil {
			n.cfg.Hooks.Beat(n.clock.Now().HolderElapsed(sent), err)
		}
		return func() {
			if announced != nil {
				announced()
			}
			if err != nil {
				n.log.V(1).Info("Heartbeat failed", "session", id, "error", err.Error())
			}
			status := record.StatusOf(outs[0])
			if status == protocol.Applied && w.Change.Doc.State != string(record.Live) {
				n.incrementAll()
			}
			n.session.Answered(id, status, n.moment())
		}, err
	})
}

func (n *node) memberAnswered(change store.Change) func([]store.Outcome, bool) {
	return func(outs []store.Outcome, malformed bool) {
		if n.session.MemberAnswered(change, outs[0], malformed, n.clock.Now()) {
			n.outbox.counters.Increment(cache.CounterMembers, n.clock.Now())
		}
	}
}

func (n *node) readSession(id string) {
	n.calls.do("read", func(ctx context.Context) (func(), error) {
		reply, err := n.store.Read(ctx, store.KindSession, id)
		var doc *store.Doc
		if len(reply.Docs) > 0 {
			doc = &reply.Docs[0]
		}
		return func() { n.session.Found(id, doc, err == nil, n.moment()) }, err
	})
}

// carryPeers does what the other sessions' states want done.
func (n *node) carryPeers(r liveness.Ready) {
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
			n.incrementAll()
			n.note(Event{Type: "Died", From: death.Instance, Message: death.Cause})
		}
	}
	for _, id := range r.Over {
		if n.cfg.Guard != nil {
			n.cfg.Guard.SessionOver(id)
		}
	}
	for _, id := range r.Reads {
		n.readPeer(id)
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
		n.look(*r.Look)
	}
}

// look lists the live and draining sessions: all of them, or the few that follow the own one.
func (n *node) look(l liveness.Look) {
	n.calls.do("observe", func(ctx context.Context) (func(), error) {
		docs, err := n.listSessions(ctx, l)
		arrived := n.clock.Now()
		sessions := make([]record.Session, len(docs))
		for i, d := range docs {
			sessions[i] = n.decodeSession(d)
		}
		return func() { n.peers.Looked(sessions, err == nil, arrived, n.moment()) }, err
	})
}

func (c *core) listSessions(ctx context.Context, l liveness.Look) ([]store.Doc, error) {
	alive := []string{string(record.Live), string(record.Draining)}
	if l.All {
		reply, err := c.list(ctx, store.KindSession, store.Query{States: alive})
		return reply.Docs, err
	}
	reply, err := c.list(ctx, store.KindSession, store.Query{States: alive, From: l.From + "\x00", Limit: l.Count})
	if err != nil || len(reply.Docs) == l.Count {
		return reply.Docs, err
	}
	first, err := c.list(ctx, store.KindSession, store.Query{States: alive, To: l.From, Limit: l.Count - len(reply.Docs)})
	return append(reply.Docs, first.Docs...), err
}

func (c *core) decodeSession(d store.Doc) record.Session {
	s, err := record.SessionFrom(d)
	c.malformed.note(c.log, d, err)
	return s
}

func (n *node) readPeer(id string) {
	n.calls.do("read", func(ctx context.Context) (func(), error) {
		reply, err := n.store.Read(ctx, store.KindSession, id)
		arrived := n.clock.Now()
		var found *record.Session
		if len(reply.Docs) > 0 {
			s := n.decodeSession(reply.Docs[0])
			found = &s
		}
		return func() { n.peers.Found(id, found, err == nil, arrived, n.moment()) }, err
	})
}
