package engine

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/shardctl/shardctl/internal/cluster"
	"github.com/shardctl/shardctl/internal/protocol"
	"github.com/shardctl/shardctl/internal/record"
	"github.com/shardctl/shardctl/pkg/store"
)

// Errors that package elect shows under the same names.
var (
	ErrClosed     = errors.New("elector closed")
	ErrNotRunning = errors.New("elector not running")
	ErrLeaseLost  = errors.New("lease lost")
)

// Loop drives an engine: it is the only select, with the timers. It alone has the engine, and lends it to the functions
// that Ask, Send and Post hand it. Its methods may be called concurrently.
type Loop struct {
	*mailbox

	cfg      Config // of the engine, whole once it is made
	observe  func(Event)
	clock    SteadyClock
	times    *storeClock
	lineage  *Lineage
	docs     Documents
	watchdog *watchdog
	changed  *broadcast
	view     atomic.Pointer[cluster.View]
	work     sync.WaitGroup // all that runs asynchronously
	ended    error          // why it could not end its session; set before over is closed

	// These are set by Start.
	ctx    context.Context //nolint:containedctx // of all that runs asynchronously
	cancel context.CancelCauseFunc

	// These are touched by the loop's goroutine only.
	engine  *Engine
	cache   *Cache
	waiters *waiters
	page    publisher
}

// NewLoop makes a loop on a store. It fills in the Clock, Store, Cache, NewID and Wake of the engine's configuration.
// Observe is called by other goroutines as well.
func NewLoop(db store.Store, clock SteadyClock, cfg Config) *Loop {
	l := &Loop{
		mailbox: newMailbox(), cfg: cfg, observe: cfg.Observe, clock: clock, times: &storeClock{local: clock},
		lineage: newLineage(), watchdog: newWatchdog(cfg.Params, clock), changed: newBroadcast(), waiters: newWaiters(),
	}
	l.docs = newDocuments(db, l.lineage, l.times, cfg.Params.Op, cfg.Log)
	l.view.Store(&cluster.View{})
	return l
}

// Start starts the loop with a new engine, and returns. When ctx ends the engine begins to give everything up. It may
// be called once.
func (l *Loop) Start(ctx context.Context) error {
	if !l.started.CompareAndSwap(false, true) {
		return errors.New("elect: started before")
	}
	l.ctx, l.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	l.cache = NewCache(l.cfg.Params, l.clock.Now())
	l.cfg.NewID, l.cfg.Clock, l.cfg.Store, l.cfg.Cache = uuid.NewString, l.times, requests{l}, l.cache
	l.cfg.Observe, l.cfg.Wake = l.note, l.waiters.wake
	l.engine = New(l.cfg)
	diverged := l.lineageChanged
	l.lineage.changed.Store(&diverged)
	go l.run(ctx)
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

// HasClock says whether a reply has shown a clock of the store.
func (l *Loop) HasClock() bool { return l.times.has() }

// Revisions is the clock of new revisions; 0 before the first reply.
func (l *Loop) Revisions() int64 { return l.times.revisions() }

// Lineage is that of the store, as last shown.
func (l *Loop) Lineage() string { return l.lineage.now() }

// Documents are those of the store.
func (l *Loop) Documents() Documents { return l.docs }

// View is the newest snapshot.
func (l *Loop) View() *cluster.View { return l.view.Load() }

// Changed returns a channel that is closed when a newer View than the present one is there.
func (l *Loop) Changed() <-chan struct{} { return l.changed.Wait() }

// Session is the session that holds the lease; empty before the first.
func (l *Loop) Session() string { return l.watchdog.session() }

// Valid says whether the session's runs may go on.
func (l *Loop) Valid(session string) bool { return l.watchdog.valid(session) }

// UntilHard is the time left before X; ok is false when the session is another.
func (l *Loop) UntilHard(session string) (left time.Duration, ok bool) {
	return l.watchdog.untilHard(session)
}

// Watch has a run ended at D from its Begun on, until Unwatch.
func (l *Loop) Watch(r *WatchedRun) { l.watchdog.add(r) }

// Begun says that the run can be stopped.
func (l *Loop) Begun(r *WatchedRun) { l.watchdog.begun(r) }

// Unwatch says that the run has ended.
func (l *Loop) Unwatch(r *WatchedRun) { l.watchdog.remove(r) }

// Track sets the groups whose locks the View shows.
func (l *Loop) Track(ctx context.Context, groups ...string) error {
	return l.Ask(ctx, func(*Engine) { l.cache.Track(groups...) })
}

// Enter adds a waiter for a key. It waits on [WaiterGroup.Woken], and has to leave.
func (l *Loop) Enter(ctx context.Context, key record.Key) (group *WaiterGroup, err error) {
	err = l.Ask(ctx, func(*Engine) { group = l.waiters.enter(CounterOf(key)) })
	return group, err
}

// Leave takes a waiter out of its group.
func (l *Loop) Leave(group *WaiterGroup) { l.Post(func(*Engine) { l.waiters.leave(group) }) }

// note shows the watchdog leases: what the deadlines of runs count from.
func (l *Loop) note(x Event) {
	if x, ok := x.(LeaseChanged); ok {
		l.watchdog.set(x)
	}
	l.observe(x)
}

// run runs the loop until its end, and leaves nothing of it.
func (l *Loop) run(ctx context.Context) {
	l.work.Go(func() { l.watchdog.watch(l.ctx, &l.work, l.cfg.OnStuck) })
	l.ended = l.loop(ctx)
	l.page.publish(l, true)
	l.cancel(ErrClosed)
	close(l.over)
	l.work.Wait()
	close(l.gone)
}

// loop takes events until nothing is left to do. Its error says why the session could not be ended.
func (l *Loop) loop(ctx context.Context) error {
	n := l.engine
	n.Settle()
	requests{l}.watch()
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
		for _, r := range l.watchdog.takeExpired() {
			if n.Keys.Held.Running(r.Key) {
				n.Keys.Expire(r.Key, n.Moment())
			}
		}
		n.Tick()
		l.page.publish(l, false)
		switch ended, err := n.Over(); {
		case ended:
			l.last("increment", n.Outbox.lastIncrements())
			if events := n.Outbox.lastEvents(); len(events) > 0 {
				l.last("event", events)
				l.last("increment", []store.Change{record.EventsWritten()})
			}
			return nil
		case err != nil:
			return err
		}
		timer.Reset(min(n.Sleep(), l.page.wait(l.cache.Size(), l.clock.Now())))
	}
}

// lineageChanged has the loop change the lineage, when a reply has named another one.
func (l *Loop) lineageChanged(from, to string) {
	l.Post(func(n *Engine) {
		if l.lineage.become(from, to) {
			n.LineageChanged()
		}
	})
}

// last writes what is left at the very end: there is no next turn of the loop that would.
func (l *Loop) last(what string, changes []store.Change) {
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

// mailbox is how everything else reaches the loop.
type mailbox struct {
	inbox   chan func(*Engine)
	over    chan struct{} // closed when the loop has ended
	gone    chan struct{} // closed when nothing of it is left
	started atomic.Bool
}

func newMailbox() *mailbox {
	return &mailbox{inbox: make(chan func(*Engine), 256), over: make(chan struct{}), gone: make(chan struct{})}
}

// post hands do to the loop. When the loop is over do is never run.
func (b *mailbox) post(do func(n *Engine)) {
	select {
	case b.inbox <- do:
	case <-b.over:
	}
}

// Post is post for callers that must not wait, the loop itself among them. Before the start nothing empties the
// inbox: what it cannot take is dropped then.
func (b *mailbox) Post(do func(n *Engine)) {
	select {
	case b.inbox <- do:
	default:
		if b.started.Load() {
			go b.post(do)
		}
	}
}

// Send is post that waits only as long as ctx goes on. When it returns an error do is never run.
func (b *mailbox) Send(ctx context.Context, do func(n *Engine)) error {
	select {
	case b.inbox <- do:
		return nil
	case <-b.over:
		return ErrClosed
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Ask runs do in the loop and waits for it. When it returns an error do has not run, and never will, unless the
// loop has ended.
func (b *mailbox) Ask(ctx context.Context, do func(n *Engine)) error {
	if !b.started.Load() {
		return ErrNotRunning
	}
	done := make(chan struct{})
	var taken atomic.Bool // by the loop, or by a caller who waits no longer
	wrapped := func(n *Engine) {
		if taken.CompareAndSwap(false, true) {
			do(n)
			close(done)
		}
	}
	if err := b.Send(ctx, wrapped); err != nil {
		return err
	}
	gone := ctx.Done()
	for {
		select {
		case <-done:
			return nil
		case <-b.over:
			return ErrClosed
		case <-gone:
			if taken.CompareAndSwap(false, true) {
				return context.Cause(ctx)
			}
			gone = nil
		}
	}
}

// drain runs what else has come in, and carries what comes of it, but not without end: however busy the callers are,
// deadlines are looked at.
func (b *mailbox) drain(n *Engine) {
	for range cap(b.inbox) {
		select {
		case do := <-b.inbox:
			do(n)
			n.Settle()
		default:
			return
		}
	}
}
