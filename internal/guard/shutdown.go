package guard

import (
	"errors"
	"syscall"
	"time"

	"github.com/shardctl/shardctl/pkg/elect/protocol"
)

const (
	defaultShutdown = 25 * time.Second       // until the worker has said the real one
	afterDrain      = 3 * time.Second        // for the worker to exit once its tasks had to be killed
	afterHardStop   = 500 * time.Millisecond // for the worker to exit by itself
	afterBye        = 5 * time.Second        // between a goodbye and a kill
)

// shutdown is how far the replica's end has come: signals to the guard, the shutdown's time limit, and the worker's
// end. It is a pure machine.
type shutdown struct {
	lease time.Duration
	limit time.Duration // of a shutdown

	draining bool
	drainBy  protocol.Instant
	overran  bool           // the limit has been acted upon
	hard     syscall.Signal // the signal of a hard stop; zero: none
	hardBy   protocol.Instant

	bye      bool // the worker said that it is about to exit
	eof      bool // everything the worker ever said has been read
	reaped   bool
	code     int // the worker's exit status, valid once reaped
	killed   bool
	lapsed   bool              // killed because it kept others from the store after its lease
	byItself bool              // it exited: no signal ended it
	died     *protocol.Instant // when the guard saw the first sign of the worker's end; nil: it lives
}

var errEnding = errors.New("the guard is ending")

func newShutdown() *shutdown { return &shutdown{lease: defaultLease, limit: defaultShutdown} }

// mayStart says why nothing may start any more; nil: it may.
func (s *shutdown) mayStart() error {
	if s.died != nil || s.hard != 0 || s.overran {
		return errEnding
	}
	return nil
}

// signalled turns a signal to the guard into an order to the worker.
func (s *shutdown) signalled(sig syscall.Signal, now protocol.Instant) []effect {
	switch {
	case sig == syscall.SIGHUP:
		return []effect{say{&ordered{Reload}}}
	case !s.draining:
		s.draining, s.drainBy = true, now.Add(s.limit)
		return []effect{say{&ordered{Drain}}, note{text: "Draining"}}
	case s.hard == 0:
		s.hard, s.hardBy = sig, now.Add(afterHardStop)
		return []effect{say{&ordered{HardStop}}, killCommands{}, note{text: "Stopping hard"}}
	default:
		return nil
	}
}

// workerExited takes the worker's exit status.
func (s *shutdown) workerExited(code int, now protocol.Instant) []effect {
	s.reaped, s.code = true, code
	return s.workerEnds(now)
}

// socketEnded takes the end of the socket for the end of the worker.
func (s *shutdown) socketEnded(now protocol.Instant) []effect {
	s.eof = true
	effects := s.workerEnds(now)
	if !s.bye {
		effects = append(effects, s.killWorker()...)
	}
	return effects
}

func (s *shutdown) workerEnds(now protocol.Instant) []effect {
	if s.died != nil {
		return nil
	}
	s.died = &now
	if s.bye {
		return []effect{killCommands{true}, note{level: levelDebug, text: "The worker has ended in order"}}
	}
	return []effect{killCommands{true}, note{text: "The worker has died, all tasks are killed"}}
}

func (s *shutdown) killWorker() []effect {
	if s.reaped || s.killed {
		return nil
	}
	s.killed = true
	return []effect{killWorker{}}
}

// endObstructing ends a worker that keeps others from the store although its lease is over.
func (s *shutdown) endObstructing() []effect {
	effects := s.killWorker()
	s.lapsed = s.lapsed || len(effects) > 0
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
		s.died != nil && reached(s.died.Add(afterBye), now):
		effects = append(effects, s.killWorker()...)
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
	if s.died != nil {
		at = append(at, s.died.Add(afterBye), s.markBy())
	}
	var soonest time.Duration
	for _, limit := range at {
		if left := holderLeft(limit, now); left > 0 && (soonest == 0 || left < soonest) {
			soonest = left
		}
	}
	return soonest, soonest > 0
}

// markBy is until when marking the sessions dead makes a difference: later all others have waited the lease out.
func (s *shutdown) markBy() protocol.Instant { return s.died.Add(s.lease) }

// over says whether the guard's work with processes is done. What cannot be killed is no reason to stay once the lease
// is over.
func (s *shutdown) over(now protocol.Instant, nothingLeft bool) bool {
	if s.died == nil {
		return false
	}
	return s.silent() && nothingLeft || reached(s.markBy(), now)
}

// silent says that the worker is gone and everything it said has been read.
func (s *shutdown) silent() bool { return s.reaped && s.eof }

// ExitLeaseLost is the exit status after a lease that was lost while work went on: EX_TEMPFAIL of sysexits.h.
const ExitLeaseLost = 75

// exitCode is the guard's own: the worker's, unless the guard had to kill that.
func (s *shutdown) exitCode() int {
	switch {
	case s.killed && s.hard != 0:
		return 128 + int(s.hard)
	case s.lapsed:
		return ExitLeaseLost
	case !s.reaped:
		return 1
	default:
		return s.code
	}
}

// obstruction counts how often in a row the worker kept all others from the store after its lease was over.
type obstruction struct {
	next  protocol.Instant
	count int
}

// obstructions is how often it must be seen: once may be a moment's work.
const obstructions = 3

// due says whether the store is to be looked at; over: X has passed for every session.
func (o *obstruction) due(over bool, lease time.Duration, now protocol.Instant) bool {
	if !reached(o.next, now) {
		return false
	}
	o.next = now.Add(lease / 20)
	if !over {
		o.count = 0
	}
	return over
}

// seen takes what the look has shown, and says whether the worker is to be ended.
func (o *obstruction) seen(obstructs bool) bool {
	if !obstructs {
		o.count = 0
		return false
	}
	o.count++
	return o.count == obstructions
}
