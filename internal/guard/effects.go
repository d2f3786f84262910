package guard

import (
	"golang.org/x/sys/unix"

	"github.com/shardctl/shardctl/internal/process"
)

// effect is something that a machine wants done: one of the types below. The loop does effects in their order.
type effect any

type (
	// say sends a message to the worker.
	say struct{ body body }
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
	// signalProcs signals these processes, if they are still what was seen.
	signalProcs struct {
		procs  []process.Proc
		signal unix.Signal
	}
	// probe asks which of these processes of a command live; the answer goes to table.probed.
	probe struct {
		id    uint64
		pids  []int
		pastX bool
	}
	// killCommands ends all commands at once; orphaned says that the worker is dead.
	killCommands struct{ orphaned bool }
	// killWorker ends the worker at once.
	killWorker struct{}
	// note logs a line.
	note struct {
		level  level
		text   string
		values []any
	}
)

// level is how much a line of the log matters.
type level uint8

const (
	levelInfo level = iota
	levelDebug
	levelError
)
