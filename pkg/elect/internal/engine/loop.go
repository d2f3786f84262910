package engine

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
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

// Core is what the loop shares with calls, runs and leases. It may be used concurrently.
type Core struct {
	Docs     documents
	P        protocol.Params
	Clock    SteadyClock
	Log      logr.Logger
	Box      *mailbox
	Times    *storeClock
	Lineage  *Lineage
	Lease    heldLease
	View     atomic.Pointer[cluster.View]
	Changed  *broadcast
	Watchdog *watchdog
	Ctx      context.Context //nolint:containedctx // of all that runs asynchronously; set before Box.Ready is closed
	Work     sync.WaitGroup  // all that runs asynchronously
	observe  func(Event)
}

// NewCore makes a core. observe is called with each event as it happens, also from outside the loop.
func NewCore(
	db store.Store, p protocol.Params, clock SteadyClock, log logr.Logger, observe func(Event),
) *Core {
	c := &Core{
		P: p, Clock: clock, Log: log, observe: observe, Box: newMailbox(), Times: &storeClock{local: clock},
		Lineage: newLineage(), Changed: newBroadcast(), Lease: heldLease{p: p, clock: clock},
	}
	c.Docs = newDocuments(db, c.Lineage, c.Times, p.Op, log)
	c.Lease.set(LeaseChanged{})
	c.Watchdog = newWatchdog(p, &c.Lease)
	c.View.Store(&cluster.View{})
	return c
}

// Loop drives an engine: it is the only select, with the timers. Calls, runs and the publisher do what the engine wants
// done. Everything but core is touched by the loop's goroutine only.
type Loop struct {
	Engine *Engine
	Cache  *Cache
	core   *Core
	cfg    LoopConfig
	page   publisher
	cancel context.CancelCauseFunc // ends everything asynchronous
	Ended  error                   // why it could not end its session; set before box.over is closed
}

// LoopConfig is what a loop is made of beside its core.
type LoopConfig struct {
	Member       record.Member
	Predecessors []record.Session
	OnStuck      func(keys []record.Key)
	Reserved     func(lock record.Lock)
	Calls        Calls
	Expired      func(key record.Key) // the watchdog has stopped runs of the key at D
}

// NewLoop makes a loop. cancel ends what runs asynchronously.
func NewLoop(c *Core, cancel context.CancelCauseFunc, cfg LoopConfig) *Loop {
	l := &Loop{core: c, Cache: NewCache(c.P, c.Clock.Now()), cfg: cfg, cancel: cancel}
	l.Engine = New(Config{
		Params: c.P, Member: cfg.Member, Predecessors: cfg.Predecessors, NewID: uuid.NewString, Log: c.Log,
		Clock: c.Times, Store: c, Calls: cfg.Calls, Cache: l.Cache, Observe: l.note,
		OnStuck: cfg.OnStuck, Reserved: cfg.Reserved,
	})
	diverged := l.lineageChanged
	c.Lineage.changed.Store(&diverged)
	return l
}

// note shows leases, and the watchdog, what they count from.
func (l *Loop) note(x Event) {
	if x, ok := x.(LeaseChanged); ok {
		l.core.Lease.set(x)
	}
	l.core.observe(x)
}

// Run runs the loop until its end, and leaves nothing of it.
func (l *Loop) Run(ctx context.Context) {
	c := l.core
	c.Work.Go(func() { c.Watchdog.watch(c.Ctx, &c.Work, l.cfg.OnStuck) })
	l.Ended = l.loop(ctx)
	l.page.publish(c, l.Engine, l.Cache, true)
	l.cancel(ErrClosed)
	close(c.Box.Over)
	c.Work.Wait()
	close(c.Box.Gone)
}

// loop takes events until nothing is left to do. Its error says why the session could not be ended.
func (l *Loop) loop(ctx context.Context) error {
	box, n := l.core.Box, l.Engine
	n.Settle()
	l.core.watch(n.Notified)
	stop := ctx.Done()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case do := <-box.inbox:
			// Effects are carried before the next event: a caller must not find a key running whose run has not
			// been started.
			do()
			n.Settle()
			box.drain(n.Settle)
		case <-timer.C:
		case <-stop:
			stop = nil
			n.Close()
		}
		for _, key := range l.core.Watchdog.takeExpired() {
			l.cfg.Expired(key)
		}
		n.Tick()
		l.page.publish(l.core, n, l.Cache, false)
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
		timer.Reset(min(n.Sleep(), l.page.wait(l.Cache.Size(), l.core.Clock.Now())))
	}
}

// lineageChanged has the loop change the lineage, when a reply has named another one.
func (l *Loop) lineageChanged(from, to string) {
	l.core.Box.PostSoon(func() {
		if l.core.Lineage.become(from, to) {
			l.Engine.LineageChanged()
		}
	})
}

// last writes what is left at the very end: there is no next turn of the loop that would.
func (l *Loop) last(what string, changes []store.Change) {
	if len(changes) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(l.core.Ctx, l.core.P.Op)
	defer cancel()
	if outs, err := l.core.Docs.store.Apply(ctx, changes...); firstError(outs, err) != nil {
		id := l.Engine.Session.ID()
		l.core.Log.V(1).Info("The end of the session could not be written", "session", id, "op", what)
	}
}

// mailbox is how everything else reaches the loop.
type mailbox struct {
	inbox   chan func()
	Ready   chan struct{} // closed once the loop has something to work on
	Over    chan struct{} // closed when the loop has ended
	Gone    chan struct{} // closed when nothing of it is left
	Started atomic.Bool
}

func newMailbox() *mailbox {
	return &mailbox{
		inbox: make(chan func(), 256), Ready: make(chan struct{}), Over: make(chan struct{}), Gone: make(chan struct{}),
	}
}

// post hands do to the loop. When the loop is over do is never run.
func (b *mailbox) post(do func()) {
	select {
	case b.inbox <- do:
	case <-b.Over:
	}
}

// PostSoon is post for callers that must not wait, the loop itself among them. Before the start nothing empties the
// inbox: what it cannot take is dropped then.
func (b *mailbox) PostSoon(do func()) {
	select {
	case b.inbox <- do:
	default:
		if b.Started.Load() {
			go b.post(do)
		}
	}
}

// Send is post that waits only as long as ctx goes on. When it returns an error do is never run.
func (b *mailbox) Send(ctx context.Context, do func()) error {
	select {
	case b.inbox <- do:
		return nil
	case <-b.Over:
		return ErrClosed
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Ask runs do in the loop and waits for it. When it returns an error do has not run, and never will, unless the
// loop has ended.
func (b *mailbox) Ask(ctx context.Context, do func()) error {
	if !b.Started.Load() {
		return ErrNotRunning
	}
	<-b.Ready
	done := make(chan struct{})
	var taken atomic.Bool // by the loop, or by a caller who waits no longer
	wrapped := func() {
		if taken.CompareAndSwap(false, true) {
			do()
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
		case <-b.Over:
			return ErrClosed
		case <-gone:
			if taken.CompareAndSwap(false, true) {
				return context.Cause(ctx)
			}
			gone = nil
		}
	}
}

// drain runs what else has come in, each followed by then, but not without end: however busy the callers are,
// deadlines are looked at.
func (b *mailbox) drain(then func()) {
	for range cap(b.inbox) {
		select {
		case do := <-b.inbox:
			do()
			then()
		default:
			return
		}
	}
}
