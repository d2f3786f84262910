package simulation

import (
	"time"

	"github.com/shardctl/shardctl/internal/protocol"
	"github.com/shardctl/shardctl/internal/reconcile"
	"github.com/shardctl/shardctl/pkg/elect/internal/engine"
)

// policy is the program's default.
var policy = reconcile.Policy{Settle: 10 * time.Second, FirstQuiet: time.Second}

const (
	// decideGap is between two decisions of a replica: the loop rests for twice as long as one takes.
	decideGap  = 300 * time.Millisecond
	aheadLimit = 2 * time.Second
)

// decider is the balancer's loop of a process.
type decider struct {
	r       *replica
	dirty   bool // something has changed since the last decision
	stale   bool // members may be another than before
	valid   bool // the lease was valid
	own     protocol.State
	decided protocol.Instant
	again   protocol.Instant // when to decide although nothing has changed; zero: not
	drained bool             // the process is to end, once its keys are given to others

	members uint64 // a hash of who is alive, as seen from here
	since   protocol.Instant
	began   protocol.Instant
	wave    reconcile.Wave
	keys    []reconcile.KeyState // memory for what it decides about
}

func newDecider(r *replica) *decider {
	now := r.Now()
	return &decider{r: r, dirty: true, stale: true, since: now, began: now}
}

// notice takes what is new to a view.
func (d *decider) notice(c engine.Changes) {
	d.dirty, d.stale = d.dirty || c.View, d.stale || c.Sessions
}

// look finds out who is alive.
func (d *decider) look(now protocol.Instant) {
	r := d.r
	if valid, own := r.node.Self.Valid(now), r.ownState(); valid != d.valid || own != d.own {
		d.valid, d.own, d.stale = valid, own, true
	}
	if !d.stale {
		return
	}
	d.stale = false
	members := aliveHash(r.id, d.own)
	r.node.Peers.All.Each(func(session string, is protocol.State) {
		if is != protocol.Dead {
			members ^= aliveHash(r.w.store.number[session], is)
		}
	})
	if members != d.members {
		d.members, d.since, d.dirty = members, now, true
	}
}

// ownState is how the own session looks from here.
func (r *replica) ownState() protocol.State {
	switch m := r.node.Self.Machine(); {
	case m.Phase > protocol.Open:
		return protocol.Dead
	case m.AnnouncedDraining:
		return protocol.Draining
	}
	return protocol.Live
}

// decide acts on this replica's part of the plan.
func (d *decider) decide(now protocol.Instant) {
	r, s := d.r, &d.r.w.snap
	due := d.again != (protocol.Instant{}) && now.HolderElapsed(d.again) >= 0
	if !d.dirty && !d.stale && !due {
		return
	}
	d.dirty, d.again = true, protocol.Instant{} // seen to with the next snapshot, should this one be too old
	if now.HolderElapsed(d.decided) < decideGap {
		d.again = d.decided.Add(decideGap)
		return
	}
	d.look(now)
	switch {
	case r.cache.version != s.version || !r.cache.current() || r.list.revision <= len(r.w.lists)-1-keptLists:
		return // something newer is on its way
	case d.members != s.alive && s.due && !now.Reached(d.decided, aheadLimit):
		return // it knows of a session that the next snapshot will show to all
	case !d.valid && !d.drained:
		return
	}
	d.dirty, d.decided = false, now
	switch {
	case !d.drained:
		d.take(s.reserved.bySession[r.node.Self.ID()])
	case !r.node.Self.Draining(now):
		d.soon(now, r.w.p.Retry)
		return
	case len(r.runs.held) == 0:
		r.node.Close() // the process ends with the last key
		r.node.Settle()
		return
	}
	d.act(now)
	r.node.Settle()
}

// act decides as the balancer does, and does it.
func (d *decider) act(now protocol.Instant) {
	r := d.r
	calm := reconcile.Calm{
		Quiet: now.HolderElapsed(d.since), Up: now.HolderElapsed(d.began),
		Outage: r.node.Peers.Connectivity.SinceOutage(now),
	}
	settled, _ := policy.Settled(calm)
	p := r.w.snap.planner.plan(r, settled)
	does := reconcile.Decide(reconcile.Snapshot{
		Session: r.node.Self.ID(), Draining: d.drained, Policy: policy, Calm: calm, Wave: d.wave, Keys: d.part(p),
	}, time.Unix(0, int64(now.Mono)))
	d.wave = does.Wave
	for _, m := range does.Release {
		r.runs.release(r.runs.keys[number(m.Key)], m.Next)
	}
	for _, key := range does.Claim {
		r.claim(key)
	}
	if does.Again > 0 {
		d.soon(now, does.Again)
	}
}

// part lists the keys that the plan is about for this replica. While some key is being released that the snapshot
// shows as before, nothing else is: the plan would choose again. In production the own hand-overs are in its input.
func (d *decider) part(p *plan) []reconcile.KeyState {
	r, s := d.r, &d.r.w.snap
	keys := d.keys[:0]
	if d.drained || !r.runs.releasing() {
		for _, h := range r.runs.held {
			to := r.id
			if r.list.declared(h.key) {
				to = p.to[h.key]
			}
			if to != r.id || d.drained {
				keys = append(keys, reconcile.KeyState{Key: r.list.name(h.key), Planned: s.name(to), Hold: h.hold})
			}
		}
	}
	if !d.drained {
		for _, key := range p.claim[r.id] {
			if r.runs.keys[key] == nil {
				own := reconcile.KeyState{Key: r.list.name(key), Planned: s.name(r.id), Fresh: s.locks[key] == nil}
				keys = append(keys, own)
			}
		}
	}
	d.keys = keys
	return keys
}

// releasing says whether some key is being released.
func (rs *runs) releasing() bool {
	for _, h := range rs.held {
		if h.hold == reconcile.Releasing {
			return true
		}
	}
	return false
}

// soon asks to decide again although nothing has changed.
func (d *decider) soon(now protocol.Instant, in time.Duration) {
	if at := now.Add(in); d.again == (protocol.Instant{}) || at.Mono < d.again.Mono {
		d.again = at
	}
}

// wait is how long the process may sleep.
func (d *decider) wait(now protocol.Instant) time.Duration {
	if d.again == (protocol.Instant{}) {
		return time.Hour
	}
	return max(-now.HolderElapsed(d.again), time.Millisecond)
}

// take claims what was handed over, and declines what is not known here or finds no free capacity.
func (d *decider) take(keys []int32) {
	for _, key := range keys {
		if d.r.list.declared(key) {
			d.r.claim(d.r.list.name(key))
		}
		if d.r.runs.keys[key] == nil {
			d.r.node.Decline(d.r.list.name(key))
		}
	}
}

// drain ends the process in order: it gives its keys to others first.
func (r *replica) drain() {
	if !r.up || r.decider.drained {
		return
	}
	r.decider.drained, r.decider.dirty = true, true
	r.node.Drain()
	r.node.Settle()
	r.tick()
}
