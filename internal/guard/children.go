package guard

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"

	"github.com/shardctl/shardctl/internal/process"
)

// children are the processes below the guard: it collects what ends, and looks at what is there.
type children struct {
	*machines
	list      func() ([]int, error) // the guard's own
	childless bool                  // the last wait found no child at all
	stops     bool                  // it looks for children that were stopped, too
	stopped   bool                  // a command was, since this was last looked at
	surveys   chan walk
}

func newChildren(m *machines, cfg Config) *children {
	return &children{machines: m, list: cfg.listChildren, stops: cfg.terminal, surveys: make(chan walk, 1)}
}

// reap collects every child that has ended, its own and those that came to it as orphans. Then it looks at those it
// still has. Between the two nothing is reaped, so that the list is exact.
func (c *children) reap() {
	for {
		pid, status, err := process.ReapAny(c.stops)
		c.childless = errors.Is(err, process.ErrChildless)
		if err != nil || pid == 0 {
			break
		}
		switch {
		case status.Stopped():
			c.stopped = c.stopped || c.table.leads(pid)
		case pid == c.worker:
			c.shutdown.byItself = status.Exited()
			c.do(c.shutdown.workerExited(statusCode(status), Now()))
		default:
			c.do(c.table.reaped(pid, status, Now()))
		}
	}
	groups, wanted := c.table.wantsSight()
	if !wanted {
		return
	}
	children, err := c.list()
	if err != nil {
		return // there is no such list here: the survey that is due finds out
	}
	s := sight{full: map[int]bool{}}
	for _, pid := range c.table.strangers(children, c.worker) {
		p, ok := process.Read(pid)
		if !ok {
			p = process.Proc{PID: pid} // it cannot be seen, but is not gone
		}
		s.strangers = append(s.strangers, p)
	}
	for _, group := range groups {
		s.full[group] = !process.GroupEmpty(group)
	}
	c.do(c.table.sighted(s))
}

// survey looks through all processes, asynchronously: reading another process's memory can hang.
func (c *children) survey() {
	s, reaps := c.suspects(), c.table.reaps
	go func() {
		w := s.look()
		w.reaps = reaps
		c.surveys <- w // of capacity one, and there is one survey at a time
	}()
}

// suspects is what is known of the guard's children now.
func (c *children) suspects() suspects {
	s := c.table.suspects()
	s.guard, s.worker, s.sessions = os.Getpid(), c.worker, c.leases.names()
	return s
}

// nothingLeft says whether every process but the guard is gone. A subreaper without children has nothing below it
// either.
func (c *children) nothingLeft() bool {
	return c.shutdown.silent() && c.childless && (process.CanFind || len(c.table.commands) == 0)
}

// statusCode is an exit status as a shell shows it.
func statusCode(ws unix.WaitStatus) int {
	if ws.Signaled() {
		return 128 + int(ws.Signal())
	}
	return ws.ExitStatus()
}
