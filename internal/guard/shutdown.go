package guard

import (
	"errors"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/shardctl/shardctl/internal/guard/wire"
	"github.com/shardctl/shardctl/internal/protocol"
)

const (
	defaultShutdown = 25 * time.Second       // until the worker has sent the real one
	afterDrain      = 3 * time.Second        // for the worker to exit once its tasks had to be killed
	afterHardStop   = 500 * time.Millisecond // for the worker to exit by itself
	afterBye        = 5 * time.Second        // between a goodbye and a kill
)

// shutdown is how far the replica's end has come: signals to the guard, the shutdown's time limit, and the worker's
// end. It does no I/O and reads no clock.
type shutdown struct {
	lease time.Duration
	limit time.Duration // of a shutdown

	draining bool
	drainBy  protocol.Instant
	overran  bool           // the limit has been acted upon
	hard     syscall.Signal // the signal of a hard stop; zero: none
	hardBy   protocol.Instant

	worker workerEnd
	keptAt protocol.Instant // when the last heartbeat was sent in the place of a dead worker; zero: none was
}

// workerEnd is how far the worker's end has come.
type workerEnd struct {
	died    *protocol.Instant // when the guard saw the first sign of it; nil: the worker lives
	leaving bool              // the worker announced that it is about to exit
	killed  bool              // by the guard

	endedForObstruction bool // killed because it kept others from the store after its lease

	eof      bool // everything the worker ever sent has been read
	reaped   bool
	code     int  // its exit status, valid once reaped
	byItself bool // it exited: no signal ended it
}

var errEnding = errors.New("the guard is ending")

func newShutdown() *shutdown { return &shutdown{lease: wire.DefaultLease, limit: defaultShutdown} }

// mayStart says why nothing may start any more; nil: it may.
func (s *shutdown) mayStart() error {
	if s.worker.died != nil || s.hard != 0 || s.overran {
		return errEnding
	}
	return nil
}

// signalled turns a signal to the guard into an order to the worker.
func (s *shutdown) signalled(sig syscall.Signal, now protocol.Instant) []effect {
	switch {
	case sig == syscall.SIGHUP:
		return []effect{send{wire.Reload}}
	case !s.draining:
		s.draining, s.drainBy = true, now.Add(s.limit)
		return []effect{send{wire.Drain}, note{text: "Draining"}}
	case s.hard == 0:
		s.hard, s.hardBy = sig, now.Add(afterHardStop)
		return []effect{send{wire.HardStop}, killCommands{}, note{text: "Stopping hard"}}
	default:
		return nil
	}
}

// interrupts takes a signal while the sessions are marked, and says whether it ends that: the second that stops does.
func (s *shutdown) interrupts(sig os.Signal) bool {
	if sig == syscall.SIGHUP {
		return false
	}
	second := s.hard != 0
	s.hard = syscall.SIGTERM
	return second
}

// workerExited takes the worker's exit status.
func (s *shutdown) workerExited(status unix.WaitStatus, now protocol.Instant) []effect {
	s.worker.reaped, s.worker.byItself, s.worker.code = true, status.Exited(), status.ExitStatus()
	values := []any{"status", s.worker.code}
	if status.Signaled() {
		s.worker.code = 128 + int(status.Signal())
		values = []any{"signal", unix.SignalName(status.Signal())}
	}
	said := note{text: "The worker has died, all tasks are killed", values: values}
	if s.worker.leaving {
		said = note{level: levelDebug, text: "The worker has ended gracefully", values: values}
	}
	return append(s.worker.ends(now), said)
}

// socketEnded takes the end of the socket for the end of the worker.
func (s *shutdown) socketEnded(now protocol.Instant) []effect {
	s.worker.eof = true
	effects := s.worker.ends(now)
	if !s.worker.leaving {
		effects = append(effects, s.worker.kill()...)
	}
	return effects
}

func (w *workerEnd) ends(now protocol.Instant) []effect {
	if w.died != nil {
		return nil
	}
	w.died = &now
	return []effect{killCommands{true}}
}

func (w *workerEnd) kill() []effect {
	if w.reaped || w.killed {
		return nil
	}
	w.killed = true
	return []effect{killWorker{}}
}

// goCrash is the exit status of a Go program after a panic, after an error of its runtime such as no further thread, and
// after SIGQUIT. No worker chooses it for itself, unless it passes on that of the command that it said goodbye for.
const goCrash = 2

// crashed says that the worker ended as Go programs do that crash.
func (w *workerEnd) crashed() bool { return w.reaped && w.byItself && w.code == goCrash }

// wasCut says that a signal or a crash ended the worker before it was about to exit.
func (w *workerEnd) wasCut() bool { return w.died != nil && !w.leaving && (!w.byItself || w.crashed()) }

// isOver says that the worker is gone and everything it sent has been read.
func (w *workerEnd) isOver() bool { return w.reaped && w.eof }

// endForObstruction ends a worker that keeps others from the store although its lease is over.
func (s *shutdown) endForObstruction() []effect {
	effects := s.worker.kill()
	s.worker.endedForObstruction = s.worker.endedForObstruction || len(effects) > 0
	return effects
}

// advance ends what the time limits end.
func (s *shutdown) advance(now protocol.Instant) []effect {
	var effects []effect
	if s.draining && !s.overran && reached(s.drainBy, now) {
		s.overran = true
		effects = []effect{killCommands{}, note{text: "The shutdown took too long, all tasks are killed"}}
	}
	switch {
	case s.overran && reached(s.drainBy.Add(afterDrain), now),
		s.hard != 0 && reached(s.hardBy, now),
		s.worker.died != nil && reached(s.worker.died.Add(afterBye), now):
		effects = append(effects, s.worker.kill()...)
	}
	return effects
}

// next is the time until a limit, and false when there is none.
func (s *shutdown) next(now protocol.Instant) (time.Duration, bool) {
	var at []protocol.Instant
	if s.draining {
		at = append(at, s.drainBy, s.drainBy.Add(afterDrain))
	}
	if s.hard != 0 {
		at = append(at, s.hardBy)
	}
	if s.worker.died != nil {
		at = append(at, s.worker.died.Add(afterBye), s.markBy())
	}
	var soonest time.Duration
	for _, limit := range at {
		if left := holderLeft(limit, now); left > 0 && (soonest == 0 || left < soonest) {
			soonest = left
		}
	}
	return soonest, soonest > 0
}

// markBy is until when sessions are marked dead. After that the lease has run out for all other replicas anyway.
func (s *shutdown) markBy() protocol.Instant {
	if s.keptAt != (protocol.Instant{}) {
		return s.keptAt.Add(s.lease)
	}
	return s.worker.died.Add(s.lease)
}

// over says whether the guard's work with processes is done. What does not die of SIGKILL is no reason to stay once the
// lease is over: it waits in the kernel, and does nothing more. What may not be signalled goes on with its work. While
// keeps says that there is such a thing, the guard stays until a hard stop.
func (s *shutdown) over(now protocol.Instant, nothingLeft, keeps bool) bool {
	switch {
	case s.worker.died == nil:
		return false
	case s.worker.isOver() && nothingLeft:
		return true
	case keeps:
		return s.hard != 0
	default:
		return reached(s.markBy(), now)
	}
}

// exitCode is the guard's own: the worker's, unless the guard had to kill that or it crashed. In the foreground a worker
// that has said goodbye passes on the status of its command.
func (s *shutdown) exitCode(foreground bool) int {
	switch {
	case foreground && s.worker.wasCut():
		return ExitLeaseLost
	case s.worker.killed && s.hard != 0:
		return 128 + int(s.hard)
	case s.worker.endedForObstruction:
		return ExitLeaseLost
	case !s.worker.reaped:
		return 1
	case !foreground && s.worker.crashed():
		return ExitCrashed
	default:
		return s.worker.code
	}
}
