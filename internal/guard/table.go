package guard

import (
	"errors"
	"maps"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/shardctl/shardctl/internal/process"
	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/elect/protocol"
)

// table is what runs on the worker's orders, and what is left of it. It is a pure machine: it hears what was
// started, reaped and seen, and returns what is to be done.
type table struct {
	lease    time.Duration
	commands map[uint64]*command
	runs     map[run]uint64      // commands, by what must not run twice
	leaders  map[int]uint64      // commands not reaped yet, by process
	ending   map[uint64]*command // those that were asked to end, or have ended and left something
	reaps    uint64              // children reaped so far
	purge    bool                // strays are to be killed, too
	orphaned bool                // the worker is dead: strays go for good
	watch    lookout
}

// run is a session's of a key. There is one at a time.
type run struct {
	key     elect.Key
	session string
}

var errStillThere = errors.New("something of its last run is left")

func newTable() *table {
	return &table{
		lease: defaultLease, commands: map[uint64]*command{}, runs: map[run]uint64{}, leaders: map[int]uint64{},
		ending: map[uint64]*command{},
	}
}

// mayStart says why a command may not start with what there is; nil: it may.
func (t *table) mayStart(id uint64, key elect.Key, session string) error {
	_, there := t.runs[run{key, session}]
	if there || t.commands[id] != nil {
		return errStillThere
	}
	return nil
}

// started notes a command that runs.
func (t *table) started(id uint64, key elect.Key, session string, token int64, pid int, cgroup string) {
	c := &command{
		id: id, key: key, session: session, token: token, pid: pid, cgroup: cgroup,
		traces: traces{seen: map[process.ID]bool{}, asked: map[process.ID]bool{}},
	}
	t.commands[id], t.runs[c.run()], t.leaders[pid] = c, id, id
}

// pass gives a command a signal, which may mean anything to it.
func (t *table) pass(id uint64, sig unix.Signal) []effect {
	c := t.commands[id]
	if c == nil {
		return nil
	}
	return c.signalGroup(sig)
}

// stop asks a command to end and sets the time of its end by force. Another call can only bring that nearer.
func (t *table) stop(id uint64, sig unix.Signal, grace time.Duration, now protocol.Instant) []effect {
	c := t.commands[id]
	if c == nil {
		return nil
	}
	at := now.Add(grace)
	if !c.end.stopping || holderLeft(at, c.end.killAt) < 0 {
		c.end.killAt = at
	}
	var effects []effect
	if !c.end.stopping || c.end.signal != sig {
		c.end.signal = sig
		clear(c.traces.asked)
		effects = c.signalGroup(sig)
	}
	c.end.stopping = true
	t.ending[id] = c
	if grace <= 0 {
		effects = append(effects, t.kill(c, false, now)...)
	}
	return effects
}

// kill ends a command by force, at once where it has a control group. Elsewhere, unless it is urgent, the group is
// spared until a survey has seen what is below it. A process that hides its environment can be recognised there only
// while its parent lives.
func (t *table) kill(c *command, urgent bool, now protocol.Instant) []effect {
	if !c.end.killing {
		c.end.killing, c.end.killedAt = true, now
	}
	t.ending[c.id] = c
	t.watch.soon(now)
	if urgent || c.cgroup != "" || !process.CanFind {
		return c.force()
	}
	return nil
}

// killAll kills every command at once; orphaned, since the worker is dead, and from then on everything else, too.
func (t *table) killAll(orphaned bool, now protocol.Instant) []effect {
	if orphaned {
		t.purge, t.orphaned = true, true
		t.watch.soon(now)
	}
	var effects []effect
	for _, id := range sortedIDs(t.commands) {
		effects = append(effects, t.kill(t.commands[id], true, now)...)
	}
	return effects
}

// lapsed ends the commands of a session that was not renewed. What is alive at X although it was killed in time is an
// alarm. After a freeze of this process both moments come at once: nothing was killed yet, and advance raises the
// alarm should that not help.
func (t *table) lapsed(l lapse, now protocol.Instant) []effect {
	var effects []effect
	for _, id := range sortedIDs(t.commands) {
		c := t.commands[id]
		if c.session != l.session {
			continue
		}
		killed := c.end.killing
		switch {
		case l.phase >= phaseKill:
			effects = append(effects, t.kill(c, true, now)...)
		case !c.end.stopping:
			effects = append(effects, t.stop(id, unix.SIGTERM, t.lease, now)...)
		}
		if l.phase >= phaseGone && killed && !c.end.alarmed {
			effects = append(effects, probe{id, c.suspected(), true})
		}
	}
	if l.phase >= phaseKill && l.before < phaseKill {
		t.purge = true
		t.watch.soon(now)
		text := "The lease was not renewed, all tasks are killed"
		effects = append(effects, note{text: text, values: []any{"session", l.session}})
	}
	return effects
}

// reaped takes the exit status of a child. What a command leaves is killed, unless it was asked to stop and has time
// left.
func (t *table) reaped(pid int, status unix.WaitStatus, now protocol.Instant) []effect {
	t.reaps++
	t.watch.stale = true
	t.watch.soon(now.Add(leastGap)) // a sight comes first, and mostly makes a survey needless
	c := t.commands[t.leaders[pid]]
	if c == nil {
		return nil
	}
	c.reaped = true
	delete(t.leaders, pid)
	t.ending[c.id] = c
	over := &exited{ID: c.id, Code: status.ExitStatus()}
	if status.Signaled() {
		over.Code, over.Signal = -1, int(status.Signal())
	}
	effects := []effect{say{over}}
	if !c.end.stopping {
		effects = append(effects, t.kill(c, false, now.Add(leastGap))...)
	}
	return effects
}

// advance kills what has used up its grace, and looks into what does not die.
func (t *table) advance(now protocol.Instant) []effect {
	var effects []effect
	for id, c := range t.ending {
		switch {
		case c.end.killing:
			took := now.HolderElapsed(c.end.killedAt)
			if took > t.lease/50 { // the survey that was to come first may hang: reading another's memory can
				effects = append(effects, c.signalGroup(unix.SIGKILL)...)
			}
			if took > max(time.Second, t.lease/10) && !c.end.alarmed {
				effects = append(effects, probe{id, c.suspected(), false})
			}
		case c.end.stopping && reached(c.end.killAt, now):
			effects = append(effects, t.kill(c, false, now)...)
		}
	}
	return effects
}

// probed takes which of a command's processes are alive. Each alarm is raised once, and so is it logged once that
// nothing is known yet. Looking through the processes takes its time on a busy machine.
func (t *table) probed(id uint64, alive []int, pastX bool) []effect {
	c := t.commands[id]
	if c == nil || c.end.alarmed {
		return nil
	}
	values := []any{"key", c.key, "session", c.session, "token", c.token}
	if len(alive) == 0 {
		if pastX || c.end.pending {
			return nil // where nothing is known yet, the next survey or advance shows
		}
		c.end.pending = true
		text := "Looking whether anything of a task is left takes long: its key stays held meanwhile"
		return []effect{note{text: text, values: values}}
	}
	c.end.alarmed = true
	alive = alive[:min(len(alive), 16)]
	return []effect{
		say{&Alarm{Session: c.session, Key: c.key, Token: c.token, PastX: pastX, PIDs: alive}},
		note{level: levelError, text: "Processes of a task do not die", values: append(values, "pids", alive)},
	}
}

// next is the time until something is due, and false when nothing is.
func (t *table) next(now protocol.Instant) (time.Duration, bool) {
	soonest, found := time.Duration(0), false
	sooner := func(at protocol.Instant) {
		if left := holderLeft(at, now); !found || left < soonest {
			soonest, found = left, true
		}
	}
	for _, c := range t.ending {
		if c.end.stopping && !c.end.killing {
			sooner(c.end.killAt)
		}
	}
	if t.mustSurvey() && !t.watch.looking {
		sooner(t.watch.next)
	}
	return soonest, found
}

// mustSurvey says whether something hangs on a survey.
func (t *table) mustSurvey() bool {
	if t.purge {
		return true
	}
	for _, c := range t.ending {
		if c.reaped || c.end.killing {
			return true
		}
	}
	return false
}

// forget drops a command of which nothing is left.
func (t *table) forget(c *command) []effect {
	delete(t.commands, c.id)
	delete(t.ending, c.id)
	delete(t.runs, c.run())
	effects := []effect{say{&gone{c.id}}}
	if c.cgroup != "" {
		effects = append(effects, removeCgroup{c.cgroup})
	}
	return effects
}

func sortedIDs(of map[uint64]*command) []uint64 { return slices.Sorted(maps.Keys(of)) }
