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
	over, wanted := c.table.wantsSight()
	if !wanted {
		return
	}
	children, err := c.list()
	if err != nil {
		return // there is no such list here: the survey that is due finds out
	}
	s := sight{full: c.full(over)}
	for _, pid := range c.table.strangers(children, c.worker) {
		p, ok := process.Read(pid)
		if !ok {
			p = process.Proc{PID: pid} // it cannot be seen, but is not gone
		}
		s.strangers = append(s.strangers, kin{p, c.cgroups.of(pid)})
	}
	for _, o := range over {
		s.full[o.id] = s.full[o.id] || !process.GroupEmpty(o.pid)
	}
	c.do(c.table.sighted(s))
}

// full are those of these commands in whose control group something lives.
func (c *children) full(over []*command) map[uint64]bool {
	full := map[uint64]bool{}
	for _, o := range over {
		full[o.id] = c.cgroups.populated(o.cgroup)
	}
	return full
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

// sort attributes what a survey has seen, with what is known now.
func (c *children) sort(w walk) survey {
	s := c.suspects().sort(w)
	s.full = c.full(c.table.over())
	return s
}

// suspects is what is known of the guard's children now.
func (c *children) suspects() suspects {
	s := c.table.suspects()
	s.guard, s.worker, s.sessions = os.Getpid(), c.worker, c.leases.names()
	s.cgroupOf = c.cgroups.of
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
