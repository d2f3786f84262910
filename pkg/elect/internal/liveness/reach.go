package liveness

import (
	"time"

	"github.com/shardctl/shardctl/pkg/elect/protocol"
)

// Reach is how well this process reaches the store.
type Reach struct {
	p         protocol.Params
	read      protocol.Instant // arrival of the last reply to a look
	heartbeat protocol.Instant // of the last acknowledged heartbeat
	outageEnd protocol.Instant
}

// StoreUnreachable says whether own reads or heartbeats have failed for longer than T/4. What is seen of others then
// says nothing about them: they may be as unable to write as this process is.
func (r *Reach) StoreUnreachable(own protocol.Session, now protocol.Instant) bool {
	return own.StoreUnreachable(r.p, r.read, r.heartbeat, now)
}

// Silent says whether no own heartbeat was acknowledged for d.
func (r *Reach) Silent(d time.Duration, now protocol.Instant) bool {
	return now.Reached(r.heartbeat, d)
}

// SinceOutage is the time since the last outage of the store ended; negative: there was none.
func (r *Reach) SinceOutage(now protocol.Instant) time.Duration {
	if r.outageEnd == (protocol.Instant{}) {
		return -1
	}
	return now.HolderElapsed(r.outageEnd)
}

// succeeded notes an own success. After failures for longer than T/4 an outage has ended, and outage is its length.
func (r *Reach) succeeded(last *protocol.Instant, at protocol.Instant) (outage time.Duration) {
	before := *last
	*last = at
	if !r.p.OutageSince(before, at) {
		return 0
	}
	r.outageEnd = at
	return at.HolderElapsed(before)
}
