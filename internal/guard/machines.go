package guard

import (
	"errors"

	"golang.org/x/sys/unix"

	"github.com/shardctl/shardctl/internal/process"
)

// machines are the three that decide, and what carries out their effects. What one of them returns to an event is
// passed to do.
type machines struct {
	table    *table
	leases   *leases
	shutdown *shutdown

	worker  int  // the worker's process
	shared  bool // commands are in this process's own group
	conn    *conn
	journal *journal
	cgroups *cgroups
}

func newMachines(cfg Config) *machines {
	journal := newJournal(cfg.Log)
	return &machines{
		table: newTable(), leases: newLeases(), shutdown: newShutdown(), journal: journal,
		cgroups: openCgroups(cfg, journal), shared: cfg.terminal,
	}
}

// do does what a machine has returned.
func (m *machines) do(effects []effect) {
	for _, e := range effects {
		switch e := e.(type) {
		case say:
			m.send(e.body)
		case signalGroup:
			if !m.shared {
				process.SignalGroup(e.pid, e.signal)
			}
			if m.shared || e.signal == unix.SIGKILL {
				_ = unix.Kill(e.pid, e.signal)
			}
		case killCgroup:
			m.cgroups.kill(e.name)
		case removeCgroup:
			m.cgroups.remove(e.name)
		case signalProcs:
			for _, p := range e.procs {
				p.Signal(e.signal)
			}
		case probe:
			m.do(m.table.probed(e.id, living(e.pids), e.pastX))
		case killCommands:
			m.do(m.table.killAll(e.orphaned, Now()))
		case killWorker:
			_ = unix.Kill(m.worker, unix.SIGKILL)
		case note:
			m.journal.add(e)
		}
	}
}

// send queues a message for the worker. One that reads so little that the queue is full is as good as dead, and so is
// one that waits for a message that cannot be sent.
func (m *machines) send(b body) {
	if err := m.conn.send(b); errors.Is(err, errQueueFull) || errors.Is(err, errUnsendable) {
		m.do(m.shutdown.killWorker())
	}
}

func living(pids []int) []int {
	var out []int
	for _, pid := range pids {
		if !errors.Is(unix.Kill(pid, 0), unix.ESRCH) {
			out = append(out, pid)
		}
	}
	return out
}
