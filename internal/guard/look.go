package guard

import (
	"maps"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/shardctl/shardctl/internal/process"
	"github.com/shardctl/shardctl/pkg/elect/protocol"
)

// How the table finds out that nothing of a command is left. The guard is the subreaper, so that whatever a reaped
// command leaves is, or hangs below, a child of the guard. A sight is one read of the guard's own children and one
// signal 0 to the group. It is therefore enough as long as it knows where every child comes from. Where it does not,
// and where something is to be killed that may have left its group, a survey walks through all processes.
//
// A child in the control group of a run is that run's. With control groups only what was moved out of them is therefore
// of unknown origin, and what lives in a run's group keeps that run from being gone.

// sight is what the guard sees of its own children at a moment since which it reaped none.
type sight struct {
	strangers []kin           // children that are neither the worker nor a command's own process
	full      map[uint64]bool // commands whose group has a process still
}

// wantsSight says of which commands a sight would decide something, and whether there is anything to decide.
func (t *table) wantsSight() (over []*command, wanted bool) {
	if !t.watch.stale {
		return nil, false
	}
	t.watch.stale = false
	over = t.over()
	return over, len(over) > 0 || t.purge
}

// over are the commands that have ended, and may have left something.
func (t *table) over() []*command {
	var over []*command
	for _, c := range t.ending {
		if c.reaped {
			over = append(over, c)
		}
	}
	return over
}

// leads says whether a process is a command's own.
func (t *table) leads(pid int) bool { return t.leaders[pid] != 0 }

// strangers are those children whose origin has to be looked at.
func (t *table) strangers(pids []int, worker int) []int {
	return slices.DeleteFunc(pids, func(pid int) bool {
		return t.leads(pid) || pid == worker
	})
}

// sighted finds the commands of which nothing is left.
func (t *table) sighted(s sight) []effect {
	known, unknown := map[uint64]bool{}, false
	if len(s.strangers) > 0 {
		suspects := t.suspects()
		for _, p := range s.strangers {
			owner := suspects.kinOf(p)
			known[owner] = true
			unknown = unknown || owner == 0
		}
	}
	var effects []effect
	for id, c := range t.ending {
		if c.reaped && !unknown && !known[id] && !s.full[id] {
			effects = append(effects, t.forget(c)...)
		}
	}
	if len(s.strangers) == 0 && len(t.ending) == 0 {
		t.purge = t.orphaned
	}
	return effects
}

// surveyDue says whether a survey is to begin now; its result goes to surveyed, with the count of children reaped so
// far.
func (t *table) surveyDue(now protocol.Instant) bool {
	switch {
	case t.watch.looking:
		return false
	case !t.mustSurvey():
		t.watch.planned = false
		return false
	case t.watch.planned && !reached(t.watch.next, now):
		return false
	}
	t.watch.looking = true
	return true
}

// suspects is what a survey needs to know, but for what the loop adds: the guard, its worker and the sessions.
func (t *table) suspects() suspects {
	s := suspects{
		leaders: maps.Clone(t.leaders), groups: map[int]uint64{}, cgroups: map[string]uint64{},
		marks: map[marks]uint64{}, seen: map[process.ID]uint64{},
	}
	for id, c := range t.commands {
		s.marks[c.marks()] = id
		if old := t.commands[s.groups[c.pid]]; old == nil || old.reaped {
			s.groups[c.pid] = id // a number that was used again belongs to the live process
		}
		if c.cgroup != "" {
			s.cgroups[c.cgroup] = id
		}
		for p := range c.traces.seen {
			s.seen[p] = id
		}
	}
	return s
}

// surveyed kills what a survey found of commands that are to end, and finds out which of them are gone.
func (t *table) surveyed(s survey, now protocol.Instant) []effect {
	t.watch.looking = false
	t.watch.gap = min(max(t.watch.gap*2, leastGap), min(max(t.lease/50, 20*time.Millisecond), 400*time.Millisecond))
	t.watch.planned, t.watch.next = true, now.Add(t.watch.gap)
	if s.err != nil {
		failed := note{level: levelError, text: "Could not look for processes", values: []any{"error", s.err.Error()}}
		return []effect{failed}
	}
	certain := s.reaps == t.reaps && !s.uncertain
	var effects []effect
	for id, c := range t.ending {
		c.traces.left = s.owned[id]
		for _, p := range c.traces.left {
			c.traces.seen[p.ID()] = true
		}
		effects = append(effects, c.press()...)
		if c.isGone(certain, s.unsure || s.full[id]) {
			effects = append(effects, t.forget(c)...)
		}
	}
	if len(s.lapsed) > 0 {
		effects = append(effects, signalProcs{s.lapsed, unix.SIGKILL})
	}
	if t.purge && len(s.stray) > 0 {
		effects = append(effects, signalProcs{s.stray, unix.SIGKILL})
	}
	if len(s.stray) == 0 && certain && !s.unsure {
		t.purge = t.orphaned
	}
	return effects
}
