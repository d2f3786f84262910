package guard

import (
	"errors"
	"maps"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/shardctl/shardctl/internal/guard/wire"
	"github.com/shardctl/shardctl/internal/process"
	"github.com/shardctl/shardctl/internal/protocol"
	"github.com/shardctl/shardctl/pkg/elect"
)

// commands is what runs on the worker's orders, and what is left of it. It does no I/O and reads no clock. It takes
// what was started, reaped and seen, and returns what is to be done.
type commands struct {
	lease  time.Duration
	byID   map[uint64]*command
	byRun  map[run]uint64      // what must not run twice
	byPID  map[int]uint64      // those whose own process is not reaped yet
	ending map[uint64]*command // those that were asked to end, or have ended and left something

	reaps      uint64 // children reaped so far
	listStale  bool   // since the last list of children something was reaped, or a control group is empty
	scan       scanTimer
	killStrays bool // what belongs to no command is to be killed, too
	workerDead bool // strays are killed for good
}

// run is a session's of a key. There is one at a time.
type run struct {
	key     elect.Key
	session string
}

var errStillThere = errors.New("something of its last run is left")

func newCommands() *commands {
	return &commands{
		lease: wire.DefaultLease, byID: map[uint64]*command{}, byRun: map[run]uint64{}, byPID: map[int]uint64{},
		ending: map[uint64]*command{},
	}
}

// mayStart says why a command may not start with what there is; nil: it may.
func (cs *commands) mayStart(id uint64, key elect.Key, session string) error {
	_, there := cs.byRun[run{key, session}]
	if there || cs.byID[id] != nil {
		return errStillThere
	}
	return nil
}

// started notes a command that runs as a process, in a control group or in none.
func (cs *commands) started(b wire.Start, pid int, cgroup string) []effect {
	c := &command{
		id: b.ID, key: b.Key, session: b.Session, token: b.Token, pid: pid, cgroup: cgroup,
		traces: traces{seen: map[process.ID]bool{}, asked: map[process.ID]bool{}},
	}
	cs.byID[c.id], cs.byRun[c.run()], cs.byPID[pid] = c, c.id, c.id
	return []effect{send{wire.Started{ID: c.id, PID: pid}}}
}

// pass gives a command a signal, which may mean anything to it.
func (cs *commands) pass(id uint64, sig unix.Signal) []effect {
	c := cs.byID[id]
	if c == nil {
		return nil
	}
	return c.signalGroup(sig)
}

// stop asks a command to end and sets the time of its end by force. Another call can only bring that nearer.
func (cs *commands) stop(id uint64, sig unix.Signal, grace time.Duration, now protocol.Instant) []effect {
	c := cs.byID[id]
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
	cs.ending[id] = c
	if grace <= 0 {
		effects = append(effects, cs.kill(c, false, now)...)
	}
	return effects
}

// kill ends a command by force, at once where it has a control group. Elsewhere, unless it is urgent, the group is
// spared until a scan has seen what is below it. A process that hides its environment can be recognised there only
// while its parent lives.
func (cs *commands) kill(c *command, urgent bool, now protocol.Instant) []effect {
	if !c.end.killing {
		c.end.killing, c.end.killedAt = true, now
	}
	cs.ending[c.id] = c
	cs.scan.soon(now)
	if urgent || c.cgroup != "" || !process.CanFind {
		return c.force()
	}
	return nil
}

// killAll kills every command at once; if the worker is dead, everything else from then on, too.
func (cs *commands) killAll(workerDead bool, now protocol.Instant) []effect {
	if workerDead {
		cs.killStrays, cs.workerDead = true, true
		cs.scan.soon(now)
	}
	var effects []effect
	for _, id := range sortedIDs(cs.byID) {
		effects = append(effects, cs.kill(cs.byID[id], true, now)...)
	}
	return effects
}

// leaseRanOut ends the commands of a session that was not renewed. What is alive at X although it was killed in time is
// an alarm. After a freeze of this process both moments come at once: nothing was killed yet, and advance raises the
// alarm should that not help.
func (cs *commands) leaseRanOut(change phaseChange, now protocol.Instant) []effect {
	var effects []effect
	for _, id := range sortedIDs(cs.byID) {
		c := cs.byID[id]
		if c.session != change.session {
			continue
		}
		killed := c.end.killing
		switch {
		case change.phase >= phaseKill:
			effects = append(effects, cs.kill(c, true, now)...)
		case !c.end.stopping:
			effects = append(effects, cs.stop(id, unix.SIGTERM, cs.lease, now)...)
		}
		if change.phase >= phaseGone && killed && !c.end.alarmed {
			effects = append(effects, probe{id, c.suspected(), true})
		}
	}
	if change.phase >= phaseKill && change.before < phaseKill {
		cs.killStrays = true
		cs.scan.soon(now)
		text := "The lease was not renewed, all tasks are killed"
		effects = append(effects, note{text: text, values: []any{"session", change.session}})
	}
	return effects
}

// reaped takes the exit status of a child. What a command leaves is killed, unless it was asked to stop and has time
// left.
func (cs *commands) reaped(pid int, status unix.WaitStatus, now protocol.Instant) []effect {
	cs.reaps++
	cs.listStale = true
	cs.scan.soon(now.Add(leastGap)) // a list of children comes first, and mostly makes a scan needless
	c := cs.byID[cs.byPID[pid]]
	if c == nil {
		return nil
	}
	c.reaped = true
	delete(cs.byPID, pid)
	cs.ending[c.id] = c
	exited := wire.Exited{ID: c.id, Code: status.ExitStatus()}
	if status.Signaled() {
		exited.Code, exited.Signal = -1, status.Signal()
	}
	effects := []effect{send{exited}}
	if !c.end.stopping {
		effects = append(effects, cs.kill(c, false, now.Add(leastGap))...)
	}
	return effects
}

// advance kills what has used up its grace, and probes what does not die.
func (cs *commands) advance(now protocol.Instant) []effect {
	var effects []effect
	for id, c := range cs.ending {
		switch {
		case c.end.killing:
			took := now.HolderElapsed(c.end.killedAt)
			if took > cs.lease/50 { // the scan that was to come first may hang: reading another's memory can
				effects = append(effects, c.signalGroup(unix.SIGKILL)...)
			}
			if took > max(time.Second, cs.lease/10) && !c.end.alarmed {
				effects = append(effects, probe{id, c.suspected(), false})
			}
		case c.end.stopping && reached(c.end.killAt, now):
			effects = append(effects, cs.kill(c, false, now)...)
		}
	}
	return effects
}

// probed takes which of a command's processes are alive. Each alarm is raised once, and so is it logged once that
// nothing is known yet. Looking through the processes takes its time on a busy machine.
func (cs *commands) probed(id uint64, alive []int, pastX bool) []effect {
	c := cs.byID[id]
	if c == nil || c.end.alarmed {
		return nil
	}
	values := []any{"key", c.key, "session", c.session, "token", c.token}
	if len(alive) == 0 {
		if pastX || c.end.pending {
			return nil // where nothing is known yet, the next scan or advance shows
		}
		c.end.pending = true
		text := "Looking whether anything of a task is left takes long: its key stays held meanwhile"
		return []effect{note{text: text, values: values}}
	}
	c.end.alarmed = true
	alive = alive[:min(len(alive), maxNamed)]
	alarm := wire.Alarm{
		Session: c.session, Key: c.key, Token: c.token, PastX: pastX, PIDs: alive, Refused: len(c.traces.refused) > 0,
	}
	text := "Processes of a task do not die"
	if alarm.Refused {
		text = "Processes of a task may not be signalled"
		alarm.PIDs = c.traces.refused[:min(len(c.traces.refused), maxNamed)]
	}
	values = append(values, "pids", alarm.PIDs)
	return []effect{send{alarm}, note{level: levelError, text: text, values: values}}
}

// maxNamed is how many processes an alarm names.
const maxNamed = 16

// refused takes which processes of a command this process may not send SIGKILL.
func (cs *commands) refused(r refusal) {
	if c := cs.byID[r.id]; c != nil {
		c.traces.refused = r.pids
	}
}

// next is the time until something is due, and false when nothing is.
func (cs *commands) next(now protocol.Instant) (time.Duration, bool) {
	soonest, found := time.Duration(0), false
	sooner := func(at protocol.Instant) {
		if left := holderLeft(at, now); !found || left < soonest {
			soonest, found = left, true
		}
	}
	for _, c := range cs.ending {
		if c.end.stopping && !c.end.killing {
			sooner(c.end.killAt)
		}
	}
	if cs.mustScan() && !cs.scan.running {
		sooner(cs.scan.next)
	}
	return soonest, found
}

// mustScan says whether only a scan can show that a command is gone, or find what is to be killed.
func (cs *commands) mustScan() bool {
	if cs.killStrays {
		return true
	}
	for _, c := range cs.ending {
		if c.reaped || c.end.killing {
			return true
		}
	}
	return false
}

// forget drops a command of which nothing is left.
func (cs *commands) forget(c *command) []effect {
	delete(cs.byID, c.id)
	delete(cs.ending, c.id)
	delete(cs.byRun, c.run())
	effects := []effect{send{wire.Gone{ID: c.id}}}
	if c.cgroup != "" {
		effects = append(effects, removeCgroup{c.cgroup})
	}
	return effects
}

func sortedIDs(of map[uint64]*command) []uint64 { return slices.Sorted(maps.Keys(of)) }

// command is one command and everything that came out of it.
type command struct {
	id      uint64
	key     elect.Key
	session string
	token   int64

	pid    int    // of the command itself, and its group; zero until it runs
	reaped bool   // the command itself has ended, and its number may be another's
	cgroup string // the control group that it was started in; empty: none

	end    ending
	traces traces
}

// ending is how far a command's stop has come.
type ending struct {
	stopping bool
	signal   unix.Signal // the last stop signal
	killAt   protocol.Instant
	killing  bool
	killedAt protocol.Instant // of the first SIGKILL
	alarmed  bool
	pending  bool // it was logged that its end takes long
}

// traces is what scans have found of a command.
type traces struct {
	seen  map[process.ID]bool // processes found to be its
	asked map[process.ID]bool // outside of its group, and sent the stop signal
	left  []process.Proc      // what the last scan found
	// refused may not be sent SIGKILL, as of the last time: they run as another user
	refused []int
	empty   int // scans in a row that found nothing
}

func (c *command) run() run { return run{c.key, c.session} }

func (c *command) marks() wire.Marks {
	return wire.Marks{Key: string(c.key), Session: c.session, Token: strconv.FormatInt(c.token, 10)}
}

func (c *command) running() bool { return c.pid > 0 && !c.reaped }

// signalGroup signals the command and its group. It does so only while the command is not reaped: after that the
// number may be another's, and the scans find what is left.
func (c *command) signalGroup(sig unix.Signal) []effect {
	if !c.running() {
		return nil
	}
	return []effect{signalGroup{c.pid, sig}}
}

// force kills the command, its group, and all that is in its control group.
func (c *command) force() []effect {
	effects := c.signalGroup(unix.SIGKILL)
	if c.cgroup != "" {
		effects = append(effects, killCgroup{c.cgroup})
	}
	return effects
}

// press signals again what is left of a command that is to end.
func (c *command) press() []effect {
	switch {
	case c.end.killing:
		effects := c.force()
		if len(c.traces.left) > 0 {
			effects = append(effects, signalProcs{c.id, c.traces.left, unix.SIGKILL})
		}
		return effects
	case c.end.stopping && c.reaped:
		var ask []process.Proc
		for _, p := range c.traces.left {
			if p.Group != c.pid && !c.traces.asked[p.ID()] {
				c.traces.asked[p.ID()] = true
				ask = append(ask, p)
			}
		}
		if len(ask) > 0 {
			return []effect{signalProcs{c.id, ask, c.end.signal}}
		}
	}
	return nil
}

// suspected are the processes of a command that may be alive: itself, and those of the last scan.
func (c *command) suspected() []int {
	var pids []int
	if c.running() {
		pids = append(pids, c.pid)
	}
	for _, p := range c.traces.left {
		if p.PID != c.pid {
			pids = append(pids, p.PID)
		}
	}
	return pids
}

// isGone says whether nothing is left of a command, after a scan. A scan during which the guard reaped no child is
// certain. Where another task leaves orphans all the time there is none. Then several that found nothing must do. What
// none of them saw would have had to move from process to process in time with each of them. A scan that met a
// process without an environment says nothing: that process may be this command's. So does one after which something
// lived in the command's control group.
func (c *command) isGone(certain, unsure bool) bool {
	if !c.reaped || len(c.traces.left) > 0 || unsure {
		c.traces.empty = 0
		return false
	}
	c.traces.empty++
	return certain || c.traces.empty >= 5
}
