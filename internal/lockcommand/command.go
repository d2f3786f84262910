package lockcommand

import (
	"context"
	"errors"
	"slices"
	"syscall"
	"time"

	"github.com/shardctl/shardctl/internal/guard/worker"
	"github.com/shardctl/shardctl/pkg/mutex"
)

// stopTimeout is how long a command may take to end after --max-hold. It is that of tasks.
const stopTimeout = 10 * time.Second

// command is the command while it runs.
type command struct {
	run     *Run
	process worker.Process
	hold    context.Context //nolint:containedctx // of the lock, which may end before the command does
	relay   relay
	hard    <-chan time.Time // when nothing of the command may be left; nil: the lock is held
}

// supervise passes signals on, ends the command when the hold has ended, and returns once nothing of it is left.
func (c *command) supervise() Outcome {
	ended := c.hold.Done()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case s := <-c.run.Guard.Signals():
			c.relay.guardGot(s, time.Now())
		case s := <-c.run.Own:
			if s, ok := s.(syscall.Signal); ok {
				c.relay.ownGot(s, time.Now())
			}
		case <-timer.C:
		case <-ended:
			ended = nil
			c.stop()
		case <-c.hard:
			c.run.Guard.Abandon()
		case a := <-c.run.Guard.Alarms():
			c.run.report("SIGKILL has not helped against processes %v: the lock stays held until they are gone", a.PIDs)
		case <-c.process.Gone():
			return c.outcome()
		case <-c.run.Guard.Lost():
			return c.lost()
		}
		for _, s := range c.relay.due(time.Now()) {
			c.process.Pass(s)
		}
		if left, ok := c.relay.next(time.Now()); ok {
			timer.Reset(left)
		}
	}
}

// stop asks the command to end, in time: before others may have the lock. A lease that is lost by its deadline leaves a
// twentieth of its duration until SIGKILL. The guard keeps to that on its own as well.
func (c *command) stop() {
	if errors.Is(context.Cause(c.hold), mutex.ErrMaxHold) {
		c.process.Stop(syscall.SIGTERM, stopTimeout) // the lease goes on, and others wait
		return
	}
	lease := c.run.Elector.LeaseDuration
	c.process.Stop(syscall.SIGTERM, lease/20)
	c.hard = time.After(lease / 10)
}

// outcome is how it ended, once nothing of the command is left.
func (c *command) outcome() Outcome {
	if c.hold.Err() != nil {
		return c.run.ended(context.Cause(c.hold))
	}
	<-c.process.Exited()
	return Outcome{Code: exitCode(c.process.Exit())}
}

// lost is the outcome without a guard: this process has killed what it could find.
func (c *command) lost() Outcome {
	out := guardLost()
	if c.hold.Err() != nil {
		out.Err = c.run.ended(context.Cause(c.hold)).Err
	}
	return out
}

// groupDelay is how long after the guard this process may get a signal that was sent to the whole group. On a busy
// machine that takes a while. A signal that is passed on late harms less than one that comes twice.
const groupDelay = 500 * time.Millisecond

// relay decides which signals are passed on to the command. On a terminal guard, worker and command are one process
// group. A signal to the group, such as that of Ctrl-C, reaches each of them; one to the guard alone has to be passed
// on. So what this process has got as well is not: many programs take a second signal for a hard stop.
//
// It is a pure machine: it takes signals and a moment, and returns what to pass on.
type relay struct {
	shared bool   // one group; else the guard alone is sent signals
	guard  []sent // to the guard, and not passed on yet
	own    []sent // to this process
}

// sent is one signal, and when it came.
type sent struct {
	signal syscall.Signal
	at     time.Time
}

// guardGot takes a signal that the guard was sent.
func (r *relay) guardGot(s syscall.Signal, now time.Time) {
	if !r.take(&r.own, s, now) {
		r.guard = append(r.guard, sent{s, now})
	}
}

// ownGot takes a signal that this process was sent.
func (r *relay) ownGot(s syscall.Signal, now time.Time) {
	if r.shared && !r.take(&r.guard, s, now) {
		r.own = append(r.own, sent{s, now})
	}
}

// take removes the oldest of a signal, if there is one that belongs to the same signal to the group.
func (r *relay) take(from *[]sent, s syscall.Signal, now time.Time) bool {
	*from = slices.DeleteFunc(*from, func(o sent) bool { return from == &r.own && now.Sub(o.at) > groupDelay })
	i := slices.IndexFunc(*from, func(o sent) bool { return o.signal == s })
	if i < 0 {
		return false
	}
	*from = slices.Delete(*from, i, i+1)
	return true
}

// due is what to pass on by now, in the order in which it came.
func (r *relay) due(now time.Time) []syscall.Signal {
	var out []syscall.Signal
	for len(r.guard) > 0 && r.left(now) <= 0 {
		out = append(out, r.guard[0].signal)
		r.guard = r.guard[1:]
	}
	return out
}

// next is the time until something may be due, and false when nothing waits.
func (r *relay) next(now time.Time) (time.Duration, bool) {
	if len(r.guard) == 0 {
		return 0, false
	}
	return max(r.left(now), 0), true
}

// left is the time until the oldest is due.
func (r *relay) left(now time.Time) time.Duration {
	if !r.shared {
		return 0
	}
	return r.guard[0].at.Add(groupDelay).Sub(now)
}
