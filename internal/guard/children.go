package guard

import (
	"errors"
	"slices"

	"github.com/shardctl/shardctl/internal/guard/wire"
	"github.com/shardctl/shardctl/internal/process"
)

// children reaps what ends below the guard, and lists what is there.
type children struct {
	x         *executor
	list      func() ([]int, error) // the guard's own
	childless bool                  // the last wait found no child at all
	stops     bool                  // it looks for children that were stopped, too
	stopped   bool                  // a command was, since takeStopped
}

// reap collects every child that has ended, its own and those that came to it as orphans. Then it lists those it still
// has. Between the two nothing is reaped, so that the list is exact.
func (c *children) reap() {
	commands := c.x.core.commands
	for {
		pid, status, err := process.ReapAny(c.stops)
		c.childless = errors.Is(err, process.ErrChildless)
		if err != nil || pid == 0 {
			break
		}
		switch {
		case status.Stopped():
			c.stopped = c.stopped || commands.isCommand(pid)
		case pid == c.x.worker:
			c.x.do(c.x.core.shutdown.workerExited(status, wire.Now()))
		default:
			c.x.do(commands.reaped(pid, status, wire.Now()))
		}
	}
	ended, wanted := commands.wantsChildList()
	if !wanted {
		return
	}
	pids, err := c.list()
	if err != nil {
		return // there is no such list here: the scan that is due finds out
	}
	c.x.do(commands.listed(c.lookAt(pids, ended)))
}

// lookAt looks at the guard's children, and at the groups of commands that have ended.
func (c *children) lookAt(pids []int, ended []*command) childList {
	l := childList{populated: c.x.populated(ended)}
	for _, pid := range slices.DeleteFunc(pids, c.x.core.commands.isCommand) {
		if pid == c.x.worker {
			continue
		}
		p, ok := process.Read(pid)
		if !ok {
			p = process.Proc{PID: pid} // it cannot be seen, but is not gone
		}
		l.strangers = append(l.strangers, child{p, c.x.cgroups.of(pid)})
	}
	for _, e := range ended {
		l.populated[e.id] = l.populated[e.id] || !process.GroupEmpty(e.pid)
	}
	return l
}

// takeStopped says whether a command was stopped since the last call.
func (c *children) takeStopped() bool {
	stopped := c.stopped
	c.stopped = false
	return stopped
}

// nothingLeft says whether every process but the guard is gone. A subreaper without children has nothing below it
// either.
func (c *children) nothingLeft() bool {
	return c.x.core.shutdown.worker.isOver() && c.childless && (process.CanFind || len(c.x.core.commands.byID) == 0)
}
