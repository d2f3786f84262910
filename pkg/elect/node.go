package elect

import (
	"context"
	"fmt"
	"time"

	"github.com/shardctl/shardctl/pkg/elect/internal/audit"
	"github.com/shardctl/shardctl/pkg/elect/internal/cache"
	"github.com/shardctl/shardctl/pkg/elect/internal/leases"
	"github.com/shardctl/shardctl/pkg/elect/internal/liveness"
	"github.com/shardctl/shardctl/pkg/elect/internal/session"
	"github.com/shardctl/shardctl/pkg/elect/internal/waiters"
	"github.com/shardctl/shardctl/pkg/elect/protocol"
	"github.com/shardctl/shardctl/pkg/elect/store"
)

// node is the loop: the only select, timers and I/O. The components decide; the node hands them events and carries their effects to the
// store, to runs and to each other. Everything but core and calls is touched by the loop's goroutine only.
type node struct {
	*core
	calls   *calls
	session *session.Own
	peers   *liveness.Peers
	leases  *leases.Table
	cache   *cache.Cache
	audit   *audit.Audit
	outbox  sender
	waiters *waiters.Waiters
	runs    *runs
	takes   func(Key) Runnable // makes the work of a key that is handed over; nil: it is claimed by Claim alone
	page    publisher
	cancel  context.CancelCauseFunc // ends everything asynchronous
	ended   error                   // see Elector.Wait; set before box.over is closed
}

func newNode(ctx context.Context, cancel context.CancelCauseFunc, c *core) *node {
	now := c.clock.Now()
	n := &node{
		core: c, calls: &calls{core: c, ctx: ctx}, cancel: cancel,
		session: session.New(c.p, c.cfg.Member),
		peers:   liveness.New(c.p, now, c.predecessors()),
		leases:  leases.New(c.p),
		cache:   cache.New(c.p, now),
		audit:   audit.New(c.p, now),
		waiters: waiters.New(),
	}
	n.runs = newRuns(n)
	n.setLimits()
	return n
}

// run runs the loop until its end, and leaves nothing of it.
func (n *node) run(ctx context.Context) {
	n.calls.work.Go(func() { n.runs.dog.watch(n.calls.ctx, &n.calls.work, n.cfg.OnStuck) })
	n.ended = n.loop(ctx)
	n.page.publish(n, true)
	n.cancel(ErrClosed)
	close(n.box.over)
	n.calls.work.Wait()
	close(n.box.gone)
}

// loop takes events until nothing is left to do. Its error is that of [Elector.Wait].
func (n *node) loop(ctx context.Context) error {
	n.settle()
	watch := watcher{calls: n.calls, notified: n.notified, broken: func() { n.cache.Watching(false) }}
	watch.follow()
	stop := ctx.Done()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case do := <-n.box.inbox:
			// Effects are carried before the next event: a caller must not find a key running whose run has not been started.
			do()
			n.settle()
			n.box.drain(n.settle)
		case <-timer.C:
		case <-stop:
			stop = nil
			n.close()
		}
		n.tick()
		now := n.clock.Now()
		switch {
		case n.session.Machine().Phase == protocol.Ended && n.session.Closing():
			n.lastIncrements()
			return nil
		case n.runs.count() == 0 && n.session.ClosingFor(n.p.T, now) && n.peers.Silent(n.p.T, now):
			return fmt.Errorf("end the session: nothing runs any more, but the store has not answered for %v: %w", n.p.T, store.ErrUnavailable)
		}
		timer.Reset(n.sleep())
	}
}

// moment is one look at all clocks and at the lease.
func (n *node) moment() protocol.Moment {
	m := n.times.moment()
	m.Valid = n.session.Valid(m.Now)
	return m
}

// tick lets time pass for every component, and carries what came of it and of the events before.
func (n *node) tick() {
	m := n.moment()
	n.session.Tick(m)
	n.settle()
	n.session.Idle(n.runs.count(), n.leases.Len(), m)
	n.settle()
	m = n.moment()
	n.peers.EndPredecessors(n.session.Announced() && n.cache.Loaded(), m)
	n.peers.Tick(n.session.Machine(), n.cache.LongestLease(), m)
	n.settle()
	n.runs.expire()
	n.leases.Tick(m)
	n.session.Announce(m)
	n.settle()
	n.auditTick(m)
	n.refresh(m.Now)
	n.settle()
	n.flush(m)
	n.page.publish(n, false)
}

// settle carries effects until no component has any.
func (n *node) settle() {
	for busy := true; busy; {
		busy = false
		if r := n.session.Ready(); !r.Empty() {
			busy = true
			n.carrySession(r)
		}
		if r := n.peers.Ready(); !r.Empty() {
			busy = true
			n.carryPeers(r)
		}
		if r := n.leases.Ready(); !r.Empty() {
			busy = true
			n.carryLeases(r)
		}
		if r := n.cache.Ready(); !r.Empty() {
			busy = true
			n.carryCache(r)
		}
		if r := n.audit.Ready(); !r.Empty() {
			busy = true
			n.carryAudit(r)
		}
	}
}

// sleep is how long the loop may sleep: no longer than T/50, so that no deadline hangs on one timer.
func (n *node) sleep() time.Duration {
	now := n.clock.Now()
	wait := min(n.p.Wake, n.peers.Wait(n.session.Machine(), now), n.outbox.counters.Wait(now), n.cache.Wait(now), n.page.wait(n.cache.Size(), now))
	if d, ok := n.session.Wait(now); ok {
		wait = min(wait, d)
	}
	if d, ok := n.leases.ReportDelay(now); ok {
		wait = min(wait, d)
	}
	return max(wait, time.Millisecond)
}

// close begins to give everything up. Keys that are not handed over by somebody who knows better are released for anyone.
func (n *node) close() {
	m := n.moment()
	if n.session.Close(m) {
		n.leases.ReleaseAll(ReasonShutdown, m)
	}
}

// setLimits tells the leases what the member allows.
func (n *node) setLimits() {
	m := n.session.Member()
	n.leases.SetLimits(leases.Limits{Caps: m.Caps, MaxTasks: m.MaxTasks})
}
