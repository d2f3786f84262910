package guard

import (
	"os"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/shardctl/shardctl/internal/guard/wire"
)

// foreground is what a guard does for a command that a user runs and waits for: it passes signals on. Where there is
// a terminal it stops with the command, so that the shell sees a job that was stopped.
type foreground struct {
	x         *executor
	cfg       Config
	continued chan os.Signal
	stopped   bool // and continued since this was last asked
}

// suspendLimit is how long a write to the worker may take before the guard stops. A frozen worker reads nothing.
const suspendLimit = 100 * time.Millisecond

// hasTerminal says whether this process has a controlling terminal.
func hasTerminal() bool {
	f, err := os.OpenFile("/dev/tty", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		return false
	}
	return f.Close() == nil
}

// NotifyUnlessIgnored is [signal.Notify] without the signals that were ignored when this process started, as nohup(1)
// has it. They stay ignored, here and in what is started. Go knows so of SIGHUP and SIGINT.
func NotifyUnlessIgnored(c chan<- os.Signal, signals ...os.Signal) {
	for _, s := range signals {
		if !signal.Ignored(s) {
			signal.Notify(c, s)
		}
	}
}

// begin has signals delivered. The returned function ends that.
func (f *foreground) begin(signals chan<- os.Signal) (end func()) {
	if f.cfg.Foreground {
		NotifyUnlessIgnored(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT)
	} else {
		signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	}
	f.continued = make(chan os.Signal, 1)
	if f.cfg.terminal {
		signal.Notify(signals, syscall.SIGTSTP)
		signal.Notify(f.continued, syscall.SIGCONT)
	}
	return func() { signal.Stop(f.continued) }
}

// took says whether a signal was for the foreground, and does what it asks for.
func (f *foreground) took(s syscall.Signal) bool {
	switch {
	case !f.cfg.Foreground, f.x.core.shutdown.worker.died != nil:
		return false
	case s != syscall.SIGTSTP:
		f.x.send(wire.Signalled{Signal: s})
	case len(f.x.core.commands.byID) == 0:
		f.suspend()
	default: // the command has it as well, and may take its time, or not stop at all
	}
	return true
}

// follow stops this process when its command was stopped. It says whether this process was stopped since the last call.
func (f *foreground) follow(commandStopped bool) bool {
	if commandStopped {
		f.suspend()
	}
	was := f.stopped
	f.stopped = false
	return was
}

// suspend stops this process until SIGCONT, and then has its command go on.
func (f *foreground) suspend() {
	select {
	case <-f.x.conn.SendWait(wire.Suspended{}): //nolint:errcheck // without a worker it need not be written
	case <-time.After(suspendLimit):
	}
	select {
	case <-f.continued: // an old one
	default:
	}
	_ = unix.Kill(os.Getpid(), unix.SIGSTOP) // this process may always stop itself
	select {
	case <-f.continued:
	case <-time.After(suspendLimit): // SIGCONT came even before this
	}
	f.stopped = true
	f.x.send(wire.Ping{})
	for pid := range f.x.core.commands.byPID { // not reaped; SIGCONT may have been for this process alone
		_ = unix.Kill(pid, unix.SIGCONT)
	}
}
