package guard

import (
	"syscall"

	"github.com/go-logr/logr"
	"golang.org/x/sys/unix"

	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/elect/protocol"
)

// handle takes one record from the worker.
func (g *keeper) handle(m message) {
	switch m.Kind {
	case kindHello:
		g.greet(m)
	case kindStart:
		if m.Start != nil {
			g.start(m)
			return
		}
	case kindStop:
		if c := g.kids[m.ID]; c != nil {
			g.stop(c, syscall.Signal(m.Signal), m.Grace)
		}
	case kindDeadline:
		if l := g.sessions[m.Session]; l != nil && m.Deadlines != nil {
			l.deadlines = *m.Deadlines
		}
	case kindOpening:
		g.open(m.Session)
	case kindClosed:
		delete(g.sessions, m.Session)
	case kindGrant:
		if l := g.sessions[m.Session]; l != nil {
			l.grant(m.Key, m.Until)
		}
	case kindPlace:
		g.held = append(g.held, m.files...)
		return
	case kindBye:
		g.worker.bye = true
	default: // what only a guard says, or what is not known
	}
	closeFiles(m.files)
}

func (g *keeper) greet(m message) {
	if m.Version != wireVersion {
		g.note(func(log logr.Logger) { log.Error(nil, "The worker is of another version") })
		g.killWorker()
		return
	}
	if m.Lease > 0 {
		g.lease = m.Lease
		g.nextPing = Now() // the worker counts silence by this lease from now on
	}
	g.shutdown = m.Timeout
	if !g.hello {
		g.hello = true
		close(g.helloed)
	}
}

// open begins a session's ledger. Whatever comes for a session without one is late: it was closed.
func (g *keeper) open(uuid string) {
	if g.sessions[uuid] == nil {
		g.sessions[uuid] = &ledger{grants: map[elect.Key]protocol.Instant{}}
	}
}

// checkDeadlines acts on the leases that have run out further since the last time.
func (g *keeper) checkDeadlines(now protocol.Instant) {
	for uuid, l := range g.sessions {
		ph := l.deadlines.phaseAt(now)
		before := l.handled
		l.handled = ph
		if ph <= before || ph < phaseStop {
			continue
		}
		for _, c := range g.kids {
			if c.session == uuid {
				g.overdue(c, ph)
			}
		}
		if ph >= phaseKill && before < phaseKill {
			g.purge = true
			g.lookSoon()
			g.note(func(log logr.Logger) { log.Info("The lease was not renewed, all tasks are killed", "session", uuid) })
		}
	}
}

// checkObstruction ends a worker that keeps others from the store although its lease has run out: nothing of its tasks is left, and
// whoever waits for it to go on may wait for ever.
func (g *keeper) checkObstruction(now protocol.Instant) {
	if g.cfg.Obstructs == nil || !g.worker.alive() || !reached(g.nextObstruction, now) {
		return
	}
	g.nextObstruction = now.Add(g.lease / 20)
	over := len(g.sessions) > 0
	for _, l := range g.sessions {
		over = over && l.deadlines.phaseAt(now) == phaseGone
	}
	if !over || !g.cfg.Obstructs(g.worker.pid) {
		g.obstructing = 0
		return
	}
	if g.obstructing++; g.obstructing == 3 {
		g.note(func(log logr.Logger) {
			log.Info("The worker keeps others from the store, and its lease is over: ending it")
		})
		g.killWorker()
	}
}

// overdue ends a command whose session was not renewed. What is alive at X although it was killed in time is an alarm. After a freeze
// of this process both moments come at once: nothing was killed yet, and checkStops raises the alarm should that not help.
func (g *keeper) overdue(c *child, ph phase) {
	killed := c.killing
	if ph >= phaseKill {
		g.kill(c, true)
	} else if !c.stopping {
		g.stop(c, unix.SIGTERM, g.lease)
	}
	if ph >= phaseGone && killed {
		g.alarm(c, true) // where nothing is known yet the next survey tells, and overstays
	}
}

// signalled turns a signal to the guard into an order to the worker.
func (g *keeper) signalled(s syscall.Signal) {
	switch {
	case s == syscall.SIGHUP:
		g.tell(message{Kind: kindOrder, Order: Reload})
	case !g.draining:
		g.draining, g.drainBy = true, Now().Add(g.shutdown)
		g.tell(message{Kind: kindOrder, Order: Drain})
		g.note(func(log logr.Logger) { log.Info("Draining") })
	case g.hard == 0:
		g.hard, g.hardBy = s, Now().Add(afterHardStop)
		g.tell(message{Kind: kindOrder, Order: HardStop})
		g.killKids()
		g.note(func(log logr.Logger) { log.Info("Stopping hard") })
	}
}

func (g *keeper) killKids() {
	for _, c := range g.kids {
		g.kill(c, true)
	}
}

// checkShutdown ends what a shutdown's time limits end.
func (g *keeper) checkShutdown(now protocol.Instant) {
	if g.draining && !g.overran && reached(g.drainBy, now) {
		g.overran = true
		g.killKids()
		g.note(func(log logr.Logger) { log.Info("The shutdown took too long, all tasks are killed") })
	}
	switch {
	case g.overran && reached(g.drainBy.Add(afterDrain), now),
		g.hard != 0 && reached(g.hardBy, now),
		!g.worker.alive() && reached(g.worker.died.Add(afterBye), now):
		g.killWorker()
	}
}

// limits are the moments that checkShutdown waits for.
func (g *keeper) limits() []protocol.Instant {
	var at []protocol.Instant
	if g.draining {
		at = append(at, g.drainBy, g.drainBy.Add(afterDrain))
	}
	if g.hard != 0 {
		at = append(at, g.hardBy)
	}
	if !g.worker.alive() {
		at = append(at, g.worker.died.Add(afterBye), g.worker.died.Add(g.lease))
	}
	return at
}

// socketEnded takes the end of the socket for the end of the worker.
func (g *keeper) socketEnded(error) {
	g.eof = true
	g.workerEnds()
	if !g.worker.bye {
		g.killWorker()
	}
}

// workerEnds kills everything at once; what is left shows in the surveys that follow, strays included.
func (g *keeper) workerEnds() {
	if !g.worker.alive() {
		return
	}
	g.worker.died = Now()
	g.purge = true
	g.killKids()
	g.lookSoon()
	if g.worker.bye {
		g.note(func(log logr.Logger) { log.V(1).Info("The worker has ended in order") })
		return
	}
	g.note(func(log logr.Logger) { log.Info("The worker has died, all tasks are killed") })
}

func (g *keeper) killWorker() {
	if g.worker.reaped || g.worker.killed {
		return
	}
	g.worker.killed = true
	_ = unix.Kill(g.worker.pid, unix.SIGKILL)
}

// exitCode is the guard's own: the worker's, unless a hard stop had to kill that.
func (g *keeper) exitCode() int {
	switch {
	case g.worker.killed && g.hard != 0:
		return 128 + int(g.hard)
	case !g.worker.reaped:
		return 1
	default:
		return g.worker.code
	}
}
