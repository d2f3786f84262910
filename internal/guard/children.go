package guard

import (
	"errors"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/sys/unix"

	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/elect/protocol"
)

// child is one command and everything that came out of it.
type child struct {
	id      uint64
	key     elect.Key
	session string
	token   int64

	pid    int  // of the command itself, and its group; zero until it runs
	reaped bool // the command itself has ended, and its pid may be another's

	stopping bool
	signal   unix.Signal // the last stop signal
	killAt   protocol.Instant
	killing  bool
	killedAt protocol.Instant // of the first SIGKILL
	alarmed  bool
	pending  bool // it was told that its end takes long

	seen  map[procID]bool // processes found to be its
	asked map[procID]bool // outside of its group, and sent the stop signal
	left  []proc          // what the last survey found of it
	empty int             // surveys in a row that found nothing
}

func (c *child) running() bool { return c.pid > 0 && !c.reaped }

// sendGroup signals the command and its group. It does so only while the command is not reaped: after that the number may
// be another's, and the surveys find who is left.
func (c *child) sendGroup(sig unix.Signal) {
	if !c.running() {
		return
	}
	_ = unix.Kill(-c.pid, sig) // fails when the command has left its group
	if sig == unix.SIGKILL {
		_ = unix.Kill(c.pid, sig)
	}
}

// start has a command started, or refuses to.
func (g *keeper) start(m message) {
	c := &child{
		id: m.ID, key: m.Start.Key, session: m.Start.Session, token: m.Start.Token,
		seen: map[procID]bool{}, asked: map[procID]bool{},
	}
	err := g.mayStart(c)
	l := g.sessions[c.session]
	if err == nil {
		select {
		case g.orders <- spawnOrder{id: m.ID, start: *m.Start, outputs: m.Code, files: m.files, deadlines: l.deadlines}:
			g.kids[c.id] = c
			g.spawning++
			return
		default:
			err = errors.New("too many starts at once")
		}
	}
	closeFiles(m.files)
	g.tell(message{Kind: kindStarted, ID: m.ID, Error: err.Error()})
}

func (g *keeper) mayStart(c *child) error {
	if !g.worker.alive() || g.hard != 0 {
		return errors.New("the guard is ending")
	}
	l := g.sessions[c.session]
	if l == nil || l.deadlines.phaseAt(Now()) != phaseHeld {
		return errors.New("the session's renewal deadline has passed")
	}
	for _, other := range g.kids {
		if other.id == c.id || other.key == c.key && other.session == c.session {
			return errors.New("something of its last run is left")
		}
	}
	return nil
}

// started takes the spawner's word.
func (g *keeper) started(r spawned) {
	g.spawning--
	c := g.kids[r.id]
	if r.err != nil {
		delete(g.kids, r.id)
		delete(g.ending, r.id)
		m := message{Kind: kindStarted, ID: r.id, Error: r.err.Error()}
		if errno, ok := errors.AsType[syscall.Errno](r.err); ok {
			m.Errno = int(errno)
		}
		g.tell(m)
	} else {
		c.pid = r.pid
		g.leaders[c.pid] = c
		g.tell(message{Kind: kindStarted, ID: c.id, PID: c.pid})
		if ws, ok := g.early[c.pid]; ok {
			g.ended(c, ws)
		}
		g.catchUp(c)
	}
	if g.spawning == 0 {
		clear(g.early)
	}
}

// catchUp applies what came while a command was being started.
func (g *keeper) catchUp(c *child) {
	ph := phaseNone
	if l := g.sessions[c.session]; l != nil {
		ph = l.deadlines.phaseAt(Now())
	}
	switch {
	case !g.worker.alive() || g.hard != 0 || g.overran || ph >= phaseKill:
		g.kill(c, true)
	case c.killing:
	case c.stopping:
		c.sendGroup(c.signal)
	case ph >= phaseStop:
		g.stop(c, unix.SIGTERM, g.lease)
	}
}

// stop asks a command to end and sets the time of its end by force. Another call can only bring that nearer.
func (g *keeper) stop(c *child, sig unix.Signal, grace time.Duration) {
	at := Now().Add(grace)
	if !c.stopping || holderLeft(at, c.killAt) < 0 {
		c.killAt = at
	}
	if !c.stopping || c.signal != sig {
		c.signal = sig
		clear(c.asked)
		c.sendGroup(sig)
	}
	c.stopping = true
	g.ending[c.id] = c
	if grace <= 0 {
		g.kill(c, false)
	}
}

// kill ends a command by force. Unless it is urgent, the group is spared until a survey has seen what is below it: a
// process that hides its environment can be told only while its parent lives.
func (g *keeper) kill(c *child, urgent bool) {
	if !c.killing {
		c.killing, c.killedAt = true, Now()
	}
	g.ending[c.id] = c
	if urgent || !canSurvey {
		c.sendGroup(unix.SIGKILL)
	}
	g.lookSoon()
}

// ended takes the exit status of a command. What it leaves is killed, unless it was asked to stop and has time left.
func (g *keeper) ended(c *child, ws unix.WaitStatus) {
	c.reaped = true
	delete(g.leaders, c.pid)
	m := message{Kind: kindExited, ID: c.id, Code: ws.ExitStatus()}
	if ws.Signaled() {
		m.Code, m.Signal = -1, int(ws.Signal())
	}
	g.tell(m)
	if !c.stopping {
		g.kill(c, false)
	}
	g.ending[c.id] = c
	g.lookSoon()
}

// gone forgets a command of which nothing is left.
func (g *keeper) gone(c *child) {
	delete(g.kids, c.id)
	delete(g.ending, c.id)
	g.tell(message{Kind: kindGone, ID: c.id})
}

// checkStops kills what has used up its grace, and raises an alarm for what does not die.
func (g *keeper) checkStops(now protocol.Instant) {
	for _, c := range g.ending {
		switch {
		case c.killing:
			// The survey that was to come first may hang: reading another's memory can.
			if now.HolderElapsed(c.killedAt) > g.lease/50 {
				c.sendGroup(unix.SIGKILL)
			}
			if now.HolderElapsed(c.killedAt) > max(time.Second, g.lease/10) {
				g.overstays(c)
			}
		case c.stopping && reached(c.killAt, now):
			g.kill(c, false)
		}
	}
}

// overstays says once that a command's end takes long: what of it does not die, or that nothing is known yet, since looking through the
// processes takes its time on a busy machine.
func (g *keeper) overstays(c *child) {
	if c.alarmed || g.alarm(c, false) || c.pending {
		return
	}
	c.pending = true
	g.note(func(log logr.Logger) {
		log.Info("Looking whether anything of a task is left takes long: its key stays held meanwhile", "key", c.key, "session", c.session, "token", c.token)
	})
}

// alarm tells of what of a command does not die, if there is anything known to be alive.
func (g *keeper) alarm(c *child, pastX bool) bool {
	pids := c.alive()
	if len(pids) == 0 {
		return false
	}
	c.alarmed = true
	a := &Alarm{Session: c.session, Key: c.key, Token: c.token, PastX: pastX, PIDs: pids[:min(len(pids), 16)]}
	g.tell(message{Kind: kindAlarm, Alarm: a})
	g.note(func(log logr.Logger) {
		log.Error(nil, "Processes of a task do not die", "key", a.Key, "session", a.Session, "token", a.Token, "pids", a.PIDs)
	})
	return true
}

// alive are the processes of a command that are there now: itself, and those of the last survey that have not gone since.
func (c *child) alive() []int {
	var pids []int
	if c.running() {
		pids = append(pids, c.pid)
	}
	for _, p := range c.left {
		if p.pid != c.pid && !errors.Is(unix.Kill(p.pid, 0), unix.ESRCH) {
			pids = append(pids, p.pid)
		}
	}
	return pids
}

// reap collects every child that has ended, its own and those that came to it as orphans.
func (g *keeper) reap() {
	for {
		var ws unix.WaitStatus
		pid, err := unix.Wait4(-1, &ws, unix.WNOHANG, nil)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		g.childless = errors.Is(err, unix.ECHILD)
		if err != nil || pid <= 0 {
			return
		}
		g.reaps++
		g.lookSoon()
		c := g.leaders[pid]
		switch {
		case pid == g.worker.pid:
			g.worker.reaped, g.worker.code = true, statusCode(ws)
			g.workerEnds()
		case c != nil:
			g.ended(c, ws)
		case g.spawning > 0:
			g.early[pid] = ws
		}
	}
}
