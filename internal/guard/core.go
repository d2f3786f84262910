package guard

import (
	"time"

	"github.com/shardctl/shardctl/internal/guard/wire"
	"github.com/shardctl/shardctl/internal/protocol"
)

// core is all that the guard decides. It takes what happened and the time, and returns what is to be done.
type core struct {
	leases      *leases
	commands    *commands
	shutdown    *shutdown
	obstruction obstruction
	keeping     keeping
	nextPing    protocol.Instant
}

func newCore() *core {
	return &core{leases: newLeases(), commands: newCommands(), shutdown: newShutdown()}
}

// received takes a message from the worker.
func (c *core) received(m wire.Message, now protocol.Instant) []effect {
	switch b := m.Body.(type) {
	case wire.Hello:
		c.commands.lease, c.shutdown.lease, c.shutdown.limit = b.Lease, b.Lease, b.ShutdownTimeout
		c.nextPing = now // the worker counts silence by that lease from now on
	case wire.Start:
		if err := c.mayStart(b, now); err != nil {
			return []effect{send{wire.Refused(b.ID, err)}}
		}
		return []effect{startCommand{b, m.Files}}
	case wire.Stop:
		return c.commands.stop(b.ID, b.Signal, b.Grace, now)
	case wire.Pass:
		return c.commands.pass(b.ID, b.Signal)
	case wire.SessionOpening:
		c.leases.open(b.Session)
	case wire.Renewed:
		c.leases.renew(b.Session, deadlines(b.Deadlines))
	case wire.SessionClosed:
		c.leases.close(b.Session)
	case wire.RemoteLease:
		c.leases.remote(b.Session, b.Key, b.Until)
	case wire.RunInside:
		c.leases.runInside(b.Session, b.Key, b.Over)
	case wire.ApplicationKey:
		c.leases.applicationKey(b.Session, b.Key, b.Over)
	case wire.ApplicationValid:
		c.leases.extend(b.Until)
	case wire.MeasureCPU:
		return []effect{measureCPU{}}
	case wire.Goodbye:
		c.shutdown.worker.leaving = true
	}
	return nil
}

// mayStart says why a command may not start; nil: it may.
func (c *core) mayStart(b wire.Start, now protocol.Instant) error {
	if err := c.shutdown.mayStart(); err != nil {
		return err
	}
	if err := c.leases.mayStart(b.Session, now); err != nil {
		return err
	}
	return c.commands.mayStart(b.ID, b.Key, b.Session)
}

// advance returns whatever has come due.
func (c *core) advance(now protocol.Instant) []effect {
	var effects []effect
	for _, change := range c.leases.advance(now) {
		effects = append(effects, c.commands.leaseRanOut(change, now)...)
	}
	effects = append(effects, c.commands.advance(now)...)
	effects = append(effects, c.shutdown.advance(now)...)
	if c.commands.scanDue(now) {
		effects = append(effects, scanProcs{})
	}
	if c.shutdown.worker.died != nil {
		return append(effects, c.keep(now)...)
	}
	if runs := c.leases.overstayed(now); runs > 0 && !c.shutdown.worker.killed {
		text := "The lease is over and tasks still run in the worker: ending it"
		effects = append(effects, note{text: text, values: []any{"tasks", runs}})
		effects = append(effects, c.shutdown.worker.kill()...)
	}
	if c.obstruction.due(c.leases.over(now), c.shutdown.lease, now) {
		effects = append(effects, checkObstruction{})
	}
	if reached(c.nextPing, now) {
		effects = append(effects, send{wire.Ping{}})
		c.nextPing = now.Add(c.shutdown.lease / 20)
	}
	return effects
}

// checkedObstruction takes whether the worker keeps all others from the store now.
func (c *core) checkedObstruction(obstructs bool) []effect {
	if !c.obstruction.seen(obstructs) {
		return nil
	}
	text := "The worker keeps others from the store, and its lease is over: ending it"
	return append([]effect{note{text: text}}, c.shutdown.endForObstruction()...)
}

// next is how long the loop may sleep: at most T/50, so that no deadline hangs on one timer.
func (c *core) next(now protocol.Instant) time.Duration {
	wait := max(c.shutdown.lease/50, time.Millisecond)
	for _, next := range []func(protocol.Instant) (time.Duration, bool){
		c.leases.next, c.commands.next, c.shutdown.next,
	} {
		if left, ok := next(now); ok {
			wait = min(wait, left)
		}
	}
	return max(wait, 0)
}

// obstruction counts how often in a row the worker kept all others from the store after its lease was over.
type obstruction struct {
	next  protocol.Instant
	count int
}

// obstructions is how often in a row it must be seen: a short transaction may be seen once.
const obstructions = 3

// due says whether to check the store now; over says that X has passed for every session.
func (o *obstruction) due(over bool, lease time.Duration, now protocol.Instant) bool {
	if !reached(o.next, now) {
		return false
	}
	o.next = now.Add(lease / 20)
	if !over {
		o.count = 0
	}
	return over
}

// seen takes what the look has shown, and says whether the worker is to be ended.
func (o *obstruction) seen(obstructs bool) bool {
	if !obstructs {
		o.count = 0
		return false
	}
	o.count++
	return o.count == obstructions
}
