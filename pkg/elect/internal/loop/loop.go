package loop

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/shardctl/shardctl/internal/cluster"
	"github.com/shardctl/shardctl/internal/protocol"
	"github.com/shardctl/shardctl/internal/record"
	"github.com/shardctl/shardctl/pkg/elect/internal/engine"
	"github.com/shardctl/shardctl/pkg/store/driver"
)

// Loop drives an engine: it is the only select, with the timers. It alone has the engine, and lends it to the functions
// that Ask, Send and Post hand it. Its methods may be called concurrently.
type Loop struct {
	*mailbox

	Lease    *Lease      // that of the session
	Watchdog *Watchdog   // of runs
	Clock    *StoreClock // as replies have shown it

	cfg     engine.Config // whole once the engine is made
	lineage *Lineage
	docs    Documents
	page    *publisher
	work    sync.WaitGroup // all that runs asynchronously
	ended   error          // why it could not end its session; set before over is closed

	// These are set by Start.
	ctx    context.Context //nolint:containedctx // of all that runs asynchronously
	cancel context.CancelCauseFunc

	// These are touched by the loop's goroutine only.
	engine  *engine.Engine
	cache   *engine.Cache
	waiters *waiters
}

// New makes a loop on a store. It fills in the Clock, Store, Cache, NewID and Wake of the engine's configuration.
// Observe is called by other goroutines as well.
func New(db driver.Store, clock SteadyClock, cfg engine.Config) *Loop {
	lease, times := newLease(cfg.Params, clock), &StoreClock{local: clock}
	l := &Loop{
		mailbox: newMailbox(), Lease: lease, Watchdog: newWatchdog(lease), Clock: times, cfg: cfg, lineage: newLineage(),
		page: newPublisher(times, cfg.Log), waiters: newWaiters(),
	}
	l.docs = newDocuments(db, l.lineage, times, cfg.Params.Op, cfg.Log)
	return l
}

// Start starts the loop with a new engine, and returns. When ctx ends the engine begins to give everything up. It may
// be called once.
func (l *Loop) Start(ctx context.Context) error {
	if !l.started.CompareAndSwap(false, true) {
		return errors.New("elect: started before")
	}
	l.ctx, l.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	observe := l.cfg.Observe
	db := &requests{
		ctx: l.ctx, work: &l.work, box: l.mailbox, docs: l.docs, lineage: l.lineage, times: l.Clock,
		params: l.cfg.Params, log: l.cfg.Log, observe: observe, session: l.Lease.Session,
	}
	l.cache = engine.NewCache(l.cfg.Params, l.Clock.Now())
	l.cfg.NewID, l.cfg.Clock, l.cfg.Store, l.cfg.Cache = uuid.NewString, l.Clock, db, l.cache
	l.cfg.Wake = l.waiters.wake
	l.cfg.Observe = func(x engine.Event) {
		if x, ok := x.(engine.LeaseChanged); ok {
			l.Lease.set(x)
		}
		observe(x)
	}
	l.engine = engine.New(l.cfg)
	diverged := l.lineageChanged
	l.lineage.changed.Store(&diverged)
	go l.run(ctx, db)
	return nil
}

// Started reports whether Start was called.
func (l *Loop) Started() bool { return l.started.Load() }

// Over returns a channel that is closed when the loop has ended.
func (l *Loop) Over() <-chan struct{} { return l.over }

// Ended is why the session could not be ended, once Over is closed.
func (l *Loop) Ended() error { return l.ended }

// Wait waits until nothing of the loop is left, and returns why the session could not be ended.
func (l *Loop) Wait() error {
	if !l.Started() {
		return ErrNotRunning
	}
	<-l.gone
	return l.ended
}

// Context is that of all that runs asynchronously. It ends with the loop.
func (l *Loop) Context() context.Context { return l.ctx }

// Go runs do asynchronously. The loop waits for it in the end.
func (l *Loop) Go(do func()) { l.work.Go(do) }

// Params are those of the protocol.
func (l *Loop) Params() protocol.Params { return l.cfg.Params }

// Lineage is that of the store, as last shown.
func (l *Loop) Lineage() string { return l.lineage.now() }

// Documents are those of the store.
func (l *Loop) Documents() Documents { return l.docs }

// View is the newest snapshot.
func (l *Loop) View() *cluster.View { return l.page.view.Load() }

// Changed returns a channel that is closed when a newer View than the present one is there.
func (l *Loop) Changed() <-chan struct{} { return l.page.changed.Wait() }

// Track sets the groups whose locks the View shows.
func (l *Loop) Track(ctx context.Context, groups ...string) error {
	return l.Ask(ctx, func(*engine.Engine) { l.cache.Track(groups...) })
}

// Enter adds a waiter for a key. It waits on [WaiterGroup.Woken], and has to leave.
func (l *Loop) Enter(ctx context.Context, key record.Key) (group *WaiterGroup, err error) {
	err = l.Ask(ctx, func(*engine.Engine) { group = l.waiters.enter(record.CounterOf(key)) })
	return group, err
}

// Leave takes a waiter out of its group.
func (l *Loop) Leave(group *WaiterGroup) { l.Post(func(*engine.Engine) { l.waiters.leave(group) }) }

// run runs the loop until its end, and leaves nothing of it.
func (l *Loop) run(ctx context.Context, db *requests) {
	l.work.Go(func() { l.Watchdog.watch(l.ctx, &l.work, l.cfg.OnStuck) })
	l.ended = l.loop(ctx, db)
	l.page.publish(l.engine, l.cache, true)
	l.cancel(ErrClosed)
	close(l.over)
	l.work.Wait()
	close(l.gone)
}

// loop takes events until nothing is left to do. Its error says why the session could not be ended.
func (l *Loop) loop(ctx context.Context, db *requests) error {
	n := l.engine
	n.Settle()
	db.watch()
	stop := ctx.Done()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case do := <-l.inbox:
			// Effects are carried before the next event: a caller must not find a key running whose run has not
			// been started.
			do(n)
			n.Settle()
			l.drain(n)
		case <-timer.C:
		case <-stop:
			stop = nil
			n.Close()
		}
		for _, r := range l.Watchdog.takeExpired() {
			if n.Keys.Held.Running(r.Key) {
				n.Keys.Expire(r.Key, n.Moment())
			}
		}
		n.Tick()
		l.page.publish(n, l.cache, false)
		switch ended, err := n.Over(); {
		case ended:
			l.last("increment", n.Outbox.LastIncrements())
			if events := n.Outbox.LastEvents(); len(events) > 0 {
				l.last("event", events)
				l.last("increment", []driver.Change{record.EventsWritten()})
			}
			return nil
		case err != nil:
			return err
		}
		timer.Reset(min(n.Sleep(), l.page.wait(l.cache.Size(), l.Clock.Now())))
	}
}

// lineageChanged has the loop change the lineage, when a reply has named another one.
func (l *Loop) lineageChanged(from, to string) {
	l.Post(func(n *engine.Engine) {
		if l.lineage.become(from, to) {
			n.LineageChanged()
		}
	})
}

// last writes what is left at the very end: there is no next turn of the loop that would.
func (l *Loop) last(what string, changes []driver.Change) {
	if len(changes) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(l.ctx, l.cfg.Params.Op)
	defer cancel()
	if outs, err := l.docs.store.Apply(ctx, changes...); firstError(outs, err) != nil {
		id := l.engine.Self.ID()
		l.cfg.Log.V(1).Info("The end of the session could not be written", "session", id, "op", what)
	}
}
