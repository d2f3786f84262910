package guard

import (
	"maps"
	"time"

	"golang.org/x/sys/unix"

	"github.com/shardctl/shardctl/internal/guard/wire"
	"github.com/shardctl/shardctl/internal/process"
	"github.com/shardctl/shardctl/internal/protocol"
)

// How the commands find out that nothing of one is left. The guard is the subreaper, so that whatever a reaped command
// leaves is, or hangs below, a child of the guard. A child list is one read of the guard's own children and one signal
// 0 to the group. It is therefore enough as long as it is known where every child comes from. Where it is not, and
// where something is to be killed that may have left its group, a scan goes through all processes.
//
// A child in the control group of a run is that run's. With control groups only what was moved out of them is therefore
// of unknown origin, and what lives in a run's group keeps that run from being gone.

// childList is what the guard sees of its own children at a moment since which it reaped none.
type childList struct {
	strangers []child         // those that are neither the worker nor a command's own process
	populated map[uint64]bool // commands whose process group or control group has a process still
}

// wantsChildList says of which commands a child list would decide something, and whether there is anything to decide.
func (cs *commands) wantsChildList() (ended []*command, wanted bool) {
	if !cs.listStale {
		return nil, false
	}
	cs.listStale = false
	ended = cs.ended()
	return ended, len(ended) > 0 || cs.killStrays
}

// ended are the commands that have ended, and may have left something.
func (cs *commands) ended() []*command {
	var ended []*command
	for _, c := range cs.ending {
		if c.reaped {
			ended = append(ended, c)
		}
	}
	return ended
}

// isCommand says whether a process is a command's own.
func (cs *commands) isCommand(pid int) bool { return cs.byPID[pid] != 0 }

// listed finds the commands of which nothing is left.
func (cs *commands) listed(l childList) []effect {
	owned, unknown := map[uint64]bool{}, false
	if len(l.strangers) > 0 {
		known := cs.known()
		for _, p := range l.strangers {
			owner := known.ownerOf(p)
			owned[owner] = true
			unknown = unknown || owner == 0
		}
	}
	var effects []effect
	for id, c := range cs.ending {
		if c.reaped && !unknown && !owned[id] && !l.populated[id] {
			effects = append(effects, cs.forget(c)...)
		}
	}
	if len(l.strangers) == 0 && len(cs.ending) == 0 {
		cs.killStrays = cs.workerDead
	}
	return effects
}

// leastGap is the least time between two scans: together they must not fill a processor.
const leastGap = 2 * time.Millisecond

// scanTimer is when to scan next.
type scanTimer struct {
	running bool             // a scan is under way
	planned bool             // next is set
	next    protocol.Instant // not before
	gap     time.Duration
}

// soon has the next scan come at a moment, if it would come later.
func (s *scanTimer) soon(at protocol.Instant) {
	if !s.planned || holderLeft(at, s.next) < 0 && s.gap > leastGap {
		s.planned, s.next = true, at
	}
	s.gap = leastGap
}

// scanDue says whether a scan is to begin now; its result goes to scanned, with the count of children reaped so far.
func (cs *commands) scanDue(now protocol.Instant) bool {
	switch {
	case cs.scan.running:
		return false
	case !cs.mustScan():
		cs.scan.planned = false
		return false
	case cs.scan.planned && !reached(cs.scan.next, now):
		return false
	}
	cs.scan.running = true
	return true
}

// known is what a scan needs to know, but for what the executor adds: the guard, its worker and the sessions.
func (cs *commands) known() knownProcs {
	k := knownProcs{
		commands: maps.Clone(cs.byPID), groups: map[int]uint64{}, cgroups: map[string]uint64{},
		marks: map[wire.Marks]uint64{}, seen: map[process.ID]uint64{},
	}
	for id, c := range cs.byID {
		k.marks[c.marks()] = id
		if old := cs.byID[k.groups[c.pid]]; old == nil || old.reaped {
			k.groups[c.pid] = id // a number that was used again belongs to the live process
		}
		if c.cgroup != "" {
			k.cgroups[c.cgroup] = id
		}
		for p := range c.traces.seen {
			k.seen[p] = id
		}
	}
	return k
}

// scanned kills what a scan found of commands that are to end, and finds out which of them are gone.
func (cs *commands) scanned(o ownership, now protocol.Instant) []effect {
	cs.scan.running = false
	cs.scan.gap = min(max(cs.scan.gap*2, leastGap), min(max(cs.lease/50, 20*time.Millisecond), 400*time.Millisecond))
	cs.scan.planned, cs.scan.next = true, now.Add(cs.scan.gap)
	if o.err != nil {
		failed := note{level: levelError, text: "Could not look for processes", values: []any{"error", o.err.Error()}}
		return []effect{failed}
	}
	certain := o.reaps == cs.reaps && !o.unknownZombie
	var effects []effect
	for id, c := range cs.ending {
		c.traces.left = o.owned[id]
		for _, p := range c.traces.left {
			c.traces.seen[p.ID()] = true
		}
		effects = append(effects, c.press()...)
		if c.isGone(certain, o.noEnviron || o.populated[id]) {
			effects = append(effects, cs.forget(c)...)
		}
	}
	if len(o.ownerless) > 0 {
		effects = append(effects, signalProcs{0, o.ownerless, unix.SIGKILL})
	}
	if cs.killStrays && len(o.stray) > 0 {
		effects = append(effects, signalProcs{0, o.stray, unix.SIGKILL})
	}
	if len(o.stray) == 0 && certain && !o.noEnviron {
		cs.killStrays = cs.workerDead
	}
	return effects
}
