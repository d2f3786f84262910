package guard

import (
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/shardctl/shardctl/internal/guard/wire"
	"github.com/shardctl/shardctl/internal/process"
	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/elect/protocol"
)

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
	empty int                 // scans in a row that found nothing
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

// press signals what is left of a command.
func (c *command) press() []effect {
	switch {
	case c.end.killing:
		effects := c.force()
		if len(c.traces.left) > 0 {
			effects = append(effects, signalProcs{c.traces.left, unix.SIGKILL})
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
			return []effect{signalProcs{ask, c.end.signal}}
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
