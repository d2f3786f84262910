package elect

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/shardctl/shardctl/pkg/elect/internal/engine"
	"github.com/shardctl/shardctl/pkg/elect/record"
	"github.com/shardctl/shardctl/pkg/store"
)

// loop drives a node: it is the only select, with the timers, and calls, runs and the publisher do what the node
// wants done. Everything but core and calls is touched by the loop's goroutine only.
type loop struct {
	*core
	*engine.Engine
	cache   *engine.Cache
	calls   *calls
	runs    *runs
	mutexes *mutexCalls
	takes   func(Key) Runnable // makes the work of a key that is handed over; nil: it is claimed by Claim alone
	page    publisher
	cancel  context.CancelCauseFunc // ends everything asynchronous
	ended   error                   // see Elector.Wait; set before box.over is closed
}

func newLoop(ctx context.Context, cancel context.CancelCauseFunc, c *core) *loop {
	l := &loop{
		core: c, cache: engine.NewCache(c.p, c.clock.Now()), calls: &calls{core: c, ctx: ctx}, cancel: cancel,
	}
	l.runs = newRuns(l.calls)
	l.runs.reserved = l.takeReserved
	l.mutexes = newMutexCalls(l.calls, l.runs)
	l.Engine = engine.New(engine.Config{
		Params: c.p, Member: c.cfg.Member, Predecessors: predecessors(c.cfg.Predecessors, c.log), NewID: uuid.NewString,
		Log:   c.log,
		Clock: c.times, Store: l.calls, Runs: l.runs, Calls: l.mutexes, Cache: l.cache, Observe: c.observe,
	})
	l.runs.node, l.mutexes.node = l.Engine, l.Engine
	diverged := l.diverged
	c.course.diverged.Store(&diverged)
	return l
}

// run runs the loop until its end, and leaves nothing of it.
func (l *loop) run(ctx context.Context) {
	l.calls.work.Go(func() { l.runs.dog.watch(l.calls.ctx, &l.calls.work, l.cfg.OnStuck) })
	l.ended = l.loop(ctx)
	l.page.publish(l.core, l.Engine, l.cache, true)
	l.cancel(ErrClosed)
	close(l.box.over)
	l.calls.work.Wait()
	close(l.box.gone)
}

// loop takes events until nothing is left to do. Its error is that of [Elector.Wait].
func (l *loop) loop(ctx context.Context) error {
	l.Settle()
	watch := watcher{calls: l.calls, notified: l.Notified}
	watch.follow()
	stop := ctx.Done()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case do := <-l.box.inbox:
			// Effects are carried before the next event: a caller must not find a key running whose run has not
			// been started.
			do()
			l.Settle()
			l.box.drain(l.Settle)
		case <-timer.C:
		case <-stop:
			stop = nil
			l.Close()
		}
		l.runs.expire()
		l.Tick()
		l.page.publish(l.core, l.Engine, l.cache, false)
		switch ended, unheard := l.Over(); {
		case ended:
			l.last("increment", l.Outbox.LastIncrements())
			if events := l.Outbox.LastEvents(); len(events) > 0 {
				l.last("event", events)
				l.last("increment", []store.Change{record.EventsWritten()})
			}
			return nil
		case unheard:
			return fmt.Errorf(
				"end the session: nothing runs any more, but the store has not answered for %v: %w", l.p.T,
				store.ErrUnavailable,
			)
		}
		timer.Reset(min(l.Sleep(), l.page.wait(l.cache.Size(), l.clock.Now())))
	}
}

// diverged has the loop change the course, when a reply has named another one.
func (l *loop) diverged(from, to string) {
	l.box.postSoon(func() {
		if l.course.become(from, to) {
			l.LineageChanged()
		}
	})
}

// last writes what is left at the very end: there is no next turn of the loop that would.
func (l *loop) last(what string, changes []store.Change) {
	if len(changes) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(l.calls.ctx, l.p.Op)
	defer cancel()
	if outs, err := l.store.Apply(ctx, changes...); firstError(outs, err) != nil {
		l.log.V(1).Info("The end of the session could not be written", "session", l.Session.ID(), "op", what)
	}
}

// claim begins to take a key: lock is as read.
func (l *loop) claim(lock record.Lock, opts LockOptions, run Runnable, started chan<- lockResult) {
	answer := func(ok bool, err error) {
		if started != nil {
			started <- lockResult{ok, err}
		}
	}
	if l.Keys.Holds(lock.Key) {
		ok := opts.Reentrant && l.Moment().Valid && l.Keys.Running(lock.Key)
		if ok {
			l.runs.again(lock.Key, run)
		}
		answer(ok, nil)
		return
	}
	if l.Session.Leaving() {
		answer(false, ErrClosed)
		return
	}
	c := engine.Claim{Lock: lock, Reason: opts.Reason, Message: opts.Message, AnyCap: opts.AnyCap, Adopt: opts.adopt}
	switch l.Claim(c) {
	case engine.ClaimBegun:
		l.runs.expect(lock.Key, run, started)
	case engine.ClaimHeldHere, engine.ClaimTaken, engine.ClaimEdited:
		answer(false, nil)
	case engine.ClaimFull:
		answer(false, ErrCapReached)
	case engine.ClaimInvalid:
		answer(false, store.ErrUnavailable)
	}
}

// takeReserved claims what was handed over. What the caps have no free capacity for is left to the caller of Decline.
func (l *loop) takeReserved(lock record.Lock) {
	if l.takes == nil {
		return
	}
	if run := l.takes(lock.Key); run != nil {
		l.claim(lock, LockOptions{adopt: true}, run, nil)
	}
}
