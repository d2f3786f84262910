package engine

import (
	"github.com/go-logr/logr"

	"github.com/shardctl/shardctl/internal/protocol"
	"github.com/shardctl/shardctl/internal/record"
	"github.com/shardctl/shardctl/pkg/store/driver"
)

// heart keeps the own session alive in the store and watches those of others. It sends what [Self] and [Peers] ask
// for, and hands them the answers.
type heart struct {
	sender  *sender
	cache   SharedCache
	self    *Self
	peers   *Peers
	mutexes *Mutexes
	outbox  *Outbox
	log     logr.Logger
	clock   Clock
	moment  func() protocol.Moment
	out     *Effects

	unseen error // why the last look at other sessions was not answered; nil: it was
}

// beat writes the own session's document, the first time after the member's: whoever sees the one is to find the other.
func (h *heart) beat(w sessionWrite) {
	r := ApplyRequest{Op: "heartbeat", InOrder: true}
	if w.Member != nil {
		r.Changes = append(r.Changes, *w.Member)
	}
	r.Changes = append(r.Changes, w.Change)
	h.sender.apply(r, func(a Answer) {
		if w.Member != nil {
			h.memberAnswered(*w.Member, a.Outcomes[0])
		}
		out := a.Outcomes[len(a.Outcomes)-1]
		status := statusOf(out)
		if status == protocol.Applied && w.Change.Doc.State != string(record.Live) {
			h.outbox.increment(h.cache.Groups(), h.clock.Now())
		}
		if out.Err != nil || w.Change.Doc.State != string(record.Dead) { // the next session may still be refused
			h.self.heard(w.Change.Doc.ID, out.Err)
		}
		if driver.Lasting(out.Err) {
			h.mutexes.refuseAll(out.Err, h.moment())
		}
		h.self.answered(w.Change.Doc.ID, status, h.moment())
	})
}

// statusOf is the status of a session's write. It is never given up.
func statusOf(out driver.Outcome) protocol.Status {
	if status := record.StatusOf(out); status != protocol.Unwritable {
		return status
	}
	return protocol.Unknown
}

// readOwn reads the own session's document.
func (h *heart) readOwn(session string) {
	h.sender.readSession(session, func(s *record.Session, err error, _ protocol.Instant) {
		if err != nil { // what it shows says nothing about the write that is repeated after it
			h.self.heard(session, err)
		}
		h.self.found(session, s, err == nil, h.moment())
	})
}

// writeMember writes what the instance says of itself.
func (h *heart) writeMember(change driver.Change) {
	h.sender.apply(ApplyRequest{Op: "member", Changes: []driver.Change{change}}, func(a Answer) {
		h.memberAnswered(change, a.Outcomes[0])
	})
}

func (h *heart) memberAnswered(change driver.Change, out driver.Outcome) {
	now := h.clock.Now()
	if h.self.Member.answered(change, out, now) {
		h.outbox.counters.add(counterMembers, now)
	}
}

// readPeer reads the document of another session.
func (h *heart) readPeer(session string) {
	h.sender.readSession(session, func(s *record.Session, err error, arrived protocol.Instant) {
		h.looked(err)
		h.peers.Found(session, s, err == nil, arrived, h.moment())
	})
}

// poll lists the other sessions.
func (h *heart) poll(x SessionPoll) {
	h.sender.list(x, func(a Answer) {
		h.looked(a.Err)
		h.peers.Polled(a.Sessions, a.Err == nil, a.Arrived, h.moment())
	})
}

// looked takes the end of a look at other sessions. Those who wait for one look when its error will last.
func (h *heart) looked(err error) {
	if h.unseen = err; driver.Lasting(err) {
		h.out.changedSessions()
	}
}

// kill marks another session dead.
func (h *heart) kill(x killSession) {
	if x.first {
		h.log.Info("Marking a session dead", "session", x.session, "peer", x.instance, "reason", x.cause)
	}
	h.sender.apply(ApplyRequest{Op: "kill", Changes: []driver.Change{x.change}}, func(a Answer) {
		h.peers.Answered(x.session, statusOf(a.Outcomes[0]), h.moment())
	})
}
