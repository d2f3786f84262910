package liveness

import (
	"time"

	"github.com/shardctl/shardctl/pkg/elect/protocol"
)

// reach is how well this process reaches the store.
type reach struct {
	read      protocol.Instant // arrival of the last reply to a look
	heartbeat protocol.Instant // of the last acknowledged heartbeat
	outageEnd protocol.Instant
}

// Away says whether own reads or heartbeats have failed for longer than T/4. What is seen of others then says nothing about them: they may be
// as unable to write as this process is.
func (ps *Peers) Away(own protocol.Session, now protocol.Instant) bool {
	return own.Away(ps.p, ps.reach.read, ps.reach.heartbeat, now)
}

// Silent says whether no own heartbeat was acknowledged for d.
func (ps *Peers) Silent(d time.Duration, now protocol.Instant) bool {
	return now.Reached(ps.reach.heartbeat, d)
}

// HeartbeatAcked takes note of an own heartbeat that was acknowledged.
func (ps *Peers) HeartbeatAcked(m protocol.Moment) { ps.succeeded(&ps.reach.heartbeat, m.Now, m) }

// succeeded notes an own success. After failures for longer than T/4 all ages start again: what was not seen is not known to be silent.
func (ps *Peers) succeeded(last *protocol.Instant, at protocol.Instant, m protocol.Moment) {
	before := *last
	*last = at
	if !ps.p.OutageSince(before, at) {
		return
	}
	ps.reach.outageEnd = at
	ps.out.Changed, ps.out.Outage = true, at.HolderElapsed(before)
	for id, q := range ps.peers {
		ps.stepAt(id, q, protocol.PeerEvent{Kind: protocol.PeerAnew}, at, m)
	}
}

// SinceOutage is the time since the last outage of the store ended; negative: there was none.
func (ps *Peers) SinceOutage(now protocol.Instant) time.Duration {
	if ps.reach.outageEnd == (protocol.Instant{}) {
		return -1
	}
	return now.HolderElapsed(ps.reach.outageEnd)
}
