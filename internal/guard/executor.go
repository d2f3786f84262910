package guard

import (
	"context"
	"errors"
	"os"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/shardctl/shardctl/internal/guard/wire"
	"github.com/shardctl/shardctl/internal/process"
	"github.com/shardctl/shardctl/internal/protocol"
	"github.com/shardctl/shardctl/pkg/elect"
)

// effect is something that the core wants done: one of the types below, or a note. They are done in their order.
type effect any

type (
	// send sends a message to the worker.
	send struct{ body any }
	// startCommand starts a command, with the files that it was passed.
	startCommand struct {
		wire.Start

		files []*os.File
	}
	// signalGroup signals a command's group, and with SIGKILL the command itself, which may have left it. A command in
	// the guard's own group is signalled alone.
	signalGroup struct {
		pid    int
		signal unix.Signal
	}
	// killCgroup kills all that is in a run's control group.
	killCgroup struct{ name string }
	// removeCgroup removes a run's control group, in which nothing lives any more.
	removeCgroup struct{ name string }
	// signalProcs signals these processes, if they are still what was seen, beside the loop. Which of a command's may
	// not be sent SIGKILL goes to commands.refused.
	signalProcs struct {
		id     uint64 // the command's; 0: of none
		procs  []process.Proc
		signal unix.Signal
	}
	// probe asks which of these processes of a command live; the answer goes to commands.probed.
	probe struct {
		id    uint64
		pids  []int
		pastX bool
	}
	// scanProcs begins a scan of all processes; its result goes to commands.scanned.
	scanProcs struct{}
	// measureCPU sends the worker how much processor time the commands have used.
	measureCPU struct{}
	// checkObstruction asks whether the worker keeps others from the store; the answer goes to core.checkedObstruction.
	checkObstruction struct{}
	// keepSessions keeps sessions of a worker that has died; how that went goes to core.kept.
	keepSessions struct {
		now      protocol.Instant
		limit    time.Duration // of each
		sessions []heldSession
	}
	// killCommands ends all commands at once.
	killCommands struct{ workerDead bool }
	// killWorker ends the worker at once.
	killWorker struct{}
)

// executor carries out what the core returns.
type executor struct {
	core      *core
	conn      *wire.Conn
	worker    int  // its process
	shared    bool // commands are in this process's own group
	obstructs func(pid int) bool
	spawner   *process.Spawner
	cgroups   *cgroups
	journal   *journal
	signaller *signaller
	keep      func(ctx context.Context, session string, runs func(elect.Key) bool) error
	scans     chan procScan
	toKeep    chan keepSessions
	kept      chan kept
	measuring atomic.Bool // processor time is being read
}

func newExecutor(cfg Config) *executor {
	journal := newJournal(cfg.Log)
	return &executor{
		core: newCore(), shared: cfg.terminal, obstructs: cfg.Obstructs, spawner: process.NewSpawner(),
		cgroups: openCgroups(cfg, journal), journal: journal, scans: make(chan procScan, 1),
		signaller: newSignaller(), keep: cfg.KeepSession, toKeep: make(chan keepSessions, 1),
		kept: make(chan kept, 1),
	}
}

// do does what the core has returned.
func (x *executor) do(effects []effect) {
	for _, e := range effects {
		switch e := e.(type) {
		case send:
			x.send(e.body)
		case startCommand:
			x.start(e)
		case signalGroup:
			if !x.shared {
				process.SignalGroup(e.pid, e.signal)
			}
			if x.shared || e.signal == unix.SIGKILL {
				_ = unix.Kill(e.pid, e.signal)
			}
		case killCgroup:
			x.cgroups.kill(e.name)
		case removeCgroup:
			x.cgroups.remove(e.name)
		case signalProcs:
			x.signaller.add(e)
		case probe:
			x.do(x.core.commands.probed(e.id, living(e.pids), e.pastX))
		case scanProcs:
			x.scan()
		case measureCPU:
			x.measureCPU()
		case checkObstruction:
			x.do(x.core.checkedObstruction(x.obstructs != nil && x.obstructs(x.worker)))
		case keepSessions:
			x.toKeep <- e // of capacity one, and there is one at a time
		case killCommands:
			x.do(x.core.commands.killAll(e.workerDead, wire.Now()))
		case killWorker:
			_ = unix.Kill(x.worker, unix.SIGKILL)
		case note:
			x.journal.add(e)
		}
	}
}

// send queues a message for the worker. A worker that lets the queue fill up is killed: it does not read.
func (x *executor) send(body any) {
	if err := x.conn.Send(body); errors.Is(err, wire.ErrQueueFull) {
		x.do(x.core.shutdown.worker.kill())
	}
}

func (x *executor) start(b startCommand) {
	file := func(number int) *os.File {
		if number == 0 {
			return nil
		}
		return b.files[number-1]
	}
	pid, cgroup, err := x.cgroups.start(b.Start, process.Spec{
		Path: b.Path, Args: b.Args, Env: b.Env, Dir: b.Dir, SameGroup: x.shared,
		Stdin: file(b.Stdin), Stdout: file(b.Stdout), Stderr: file(b.Stderr),
	}, x.spawner)
	if err != nil {
		x.send(wire.Refused(b.ID, err))
		return
	}
	x.do(x.core.commands.started(b.Start, pid, cgroup))
}

// living are those that live, as many of them as an alarm names.
func living(pids []int) []int {
	var out []int
	for _, pid := range pids {
		if len(out) < maxNamed && !errors.Is(unix.Kill(pid, 0), unix.ESRCH) {
			out = append(out, pid)
		}
	}
	return out
}

// scan goes through all processes, asynchronously: reading another process's memory can hang.
func (x *executor) scan() {
	k, reaps := x.known(), x.core.commands.reaps
	go func() {
		s := k.scan()
		s.reaps = reaps
		x.scans <- s // of capacity one, and there is one scan at a time
	}()
}

// measureCPU reads what the commands have used and sends it, asynchronously. It does nothing while that goes on.
func (x *executor) measureCPU() {
	if !x.measuring.CompareAndSwap(false, true) {
		return
	}
	k, at := x.known(), wire.Now()
	go func() {
		used := wire.Used{At: at, Commands: k.usage(x.cgroups.dir)}
		x.measuring.Store(false)
		_ = x.conn.Send(used) // else the worker asks again
	}()
}

// scanned takes the end of a scan. What it saw is attributed with what is known now.
func (x *executor) scanned(s procScan) {
	o := x.known().attribute(s)
	o.populated = x.populated(x.core.commands.ended())
	x.do(x.core.commands.scanned(o, wire.Now()))
}

// known is what is known of the guard's children now.
func (x *executor) known() knownProcs {
	k := x.core.commands.known()
	k.guard, k.worker, k.sessions = os.Getpid(), x.worker, x.core.leases.names()
	k.cgroupOf = x.cgroups.of
	return k
}

// populated are those of these commands in whose control group something lives.
func (x *executor) populated(ended []*command) map[uint64]bool {
	populated := map[uint64]bool{}
	for _, c := range ended {
		populated[c.id] = x.cgroups.populated(c.cgroup)
	}
	return populated
}
