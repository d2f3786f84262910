package elect

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"

	"github.com/shardctl/shardctl/pkg/elect/protocol"
	"github.com/shardctl/shardctl/pkg/elect/store"
	"github.com/shardctl/shardctl/pkg/internal/wallclock"
)

// Elector is one process's part in the protocol: a session with one heartbeat for all its keys, the keys it holds, and
// what it knows of the others. Create it with [New], run it with [Elector.Run].
//
// All decisions are taken by one goroutine (the loop), which never waits for the store: everything that does
// runs beside it and reports back. Methods may be called concurrently.
type Elector struct {
	cfg   Config
	p     protocol.Params
	store store.Store
	clock Clock
	log   logr.Logger

	inbox   chan func()   // what the loop is to do
	over    chan struct{} // closed when Run has ended
	started atomic.Bool
	work    sync.WaitGroup // everything that runs beside the loop

	lease    atomic.Pointer[validity]
	revs     revClock
	dog      *watchdog
	offset   atomic.Int64 // the store's clock in ms less the local steady clock in ms
	view     atomic.Pointer[View]
	viewWake broadcast

	loop loop
}

// loop is what only the loop's goroutine touches.
type loop struct {
	ctx     context.Context // of everything that runs beside the loop
	session ownSession
	peers   map[string]*peer
	keys    map[Key]*holding
	absent  map[Key]Lock   // deleted by hand, to be made again
	owned   map[string]int // keys not free, by group
	running int            // callbacks that have not returned

	writes  writeQueue
	reads   []*holding // creations of locks that wait for the read before them
	bumps   bumper
	mirror  mirror
	events  eventWriter
	closing bool
	closeAt protocol.Instant
	drain   bool
	drainAt protocol.Instant // when it was asked for

	waiting    map[string]*waitRoom // by group
	viewDirty  bool
	locksDirty bool  // since the last view
	reports    bool  // statuses wait to be noted
	reserved   []Key // handed over to this session, as was just seen
	takes      func(Key) Runnable
	published  protocol.Instant
	lastLook   protocol.Instant // start of the last look at the other sessions
	looking    bool
	lastRead   protocol.Instant // arrival of the last reply to such a look
	lastBeat   protocol.Instant // of the last acknowledged beat
	lastCount  protocol.Instant
	miscount   int
	counting   bool
	outageEnd  protocol.Instant
	given      map[Key]givenByHand
	heldOff    map[Key]givenByHand // reservations of others that keys are left alone for
	told       map[foundAt]bool    // nonsense that was logged
	cleaned    protocol.Instant
	forgot     bool             // the store has shown the own session below a revision it had acknowledged
	forgotAt   protocol.Instant // when it did last

	predecessors map[string]Predecessor // not known to be dead yet
	shown        protocol.Instant       // since when this session can be seen
}

// validity is what leases need to know, readable without the loop.
type validity struct {
	session string
	open    bool
	acked   protocol.Instant
}

// New makes an Elector. It checks the configuration, all of it, and touches nothing else.
func New(cfg Config) (*Elector, error) {
	cfg.setDefaults()
	p, err := cfg.validate()
	if err != nil {
		return nil, err
	}
	e := &Elector{
		cfg: cfg, p: p, clock: cfg.Clock,
		log:   cfg.Logger,
		inbox: make(chan func(), 256),
		over:  make(chan struct{}),
	}
	e.store = timedStore{cfg.Store, e.learnClock}
	e.lease.Store(&validity{})
	e.dog = newWatchdog(p, cfg.Clock, &e.lease)
	e.view.Store(&View{})
	e.viewWake.init()
	return e, nil
}

// Done returns a channel that is closed when Run has ended.
func (e *Elector) Done() <-chan struct{} { return e.over }

// Params are the protocol's constants in force.
func (e *Elector) Params() protocol.Params { return e.p }

// Run keeps the session and serves all other methods until ctx ends; then it gives every key up, in order, ends the session and
// returns. It may be called once. It returns nil after Close or the end of ctx; the context of the work under way
// is cancelled with cause ErrReleased then. When the store does not answer for the length of the lease, and nothing runs any more, it
// returns an error that wraps ErrUnavailable: others free the keys.
//
// Giving up in order has no time limit here: a run that ignores its context is waited for. Whoever needs a limit ends
// the process.
func (e *Elector) Run(ctx context.Context) error {
	if !e.started.CompareAndSwap(false, true) {
		return errors.New("elect: Run was called before")
	}
	beside, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	defer func() {
		cancel(ErrClosed)
		close(e.over)
		e.work.Wait()
	}()
	e.begin(beside)
	stop := ctx.Done()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case do := <-e.inbox:
			do()
			e.doMore()
		case <-timer.C:
		case <-stop:
			stop = nil
			e.close()
		}
		e.tick()
		if e.loop.session.m.Phase == protocol.Ended && e.loop.closing {
			e.lastBumps()
			return nil
		}
		if e.abandoned() {
			return fmt.Errorf("end the session: nothing runs any more, but the store has not answered for %v: %w", e.p.T, ErrUnavailable)
		}
		timer.Reset(e.untilNext())
	}
}

// abandoned says whether nothing is left to wait for: nothing runs, the lease is over, and the store does not answer.
func (e *Elector) abandoned() bool {
	l := &e.loop
	if !l.closing || l.running > 0 {
		return false
	}
	now := e.clock.Now()
	return now.Reached(l.closeAt, e.p.T) && now.Reached(l.lastBeat, e.p.T)
}

// doMore does what else has come in, but not without end: however busy the callers are, deadlines are looked at.
func (e *Elector) doMore() {
	for range cap(e.inbox) {
		select {
		case do := <-e.inbox:
			do()
		default:
			return
		}
	}
}

func (e *Elector) begin(ctx context.Context) {
	now := e.clock.Now()
	l := &e.loop
	l.ctx = ctx
	l.peers = map[string]*peer{}
	l.keys = map[Key]*holding{}
	l.absent = map[Key]Lock{}
	l.heldOff = map[Key]givenByHand{}
	l.owned = map[string]int{}
	l.waiting = map[string]*waitRoom{}
	l.predecessors = e.markable()
	l.mirror.init()
	l.lastRead, l.lastBeat, l.lastCount, l.cleaned = now, now, now, now
	e.newSession()
	e.work.Go(func() { e.watchDeadlines(ctx) })
	e.watch()
}

// tick lets time pass for everything the loop holds.
func (e *Elector) tick() {
	now := e.clock.Now()
	e.stepSession(protocol.SessionEvent{Kind: protocol.SessionTick}, now)
	e.tasksOff(now)
	e.endPredecessors(now)
	e.tickPeers(now)
	e.tickKeys()
	e.restoreAbsent()
	e.flushMember()
	e.tickMirror(now)
	e.takeReserved()
	e.flushReads()
	e.flushWrites()
	e.flushBumps(now)
	e.flushEvents()
	e.count(now)
	e.clean(now)
	e.publish(now)
}

// untilNext is how long the loop may sleep: no longer than T/50, so that no deadline hangs on one timer.
func (e *Elector) untilNext() time.Duration {
	now := e.clock.Now()
	l := &e.loop
	wait := e.p.Wake
	sooner := func(since protocol.Instant, d time.Duration) {
		wait = min(wait, d-now.HolderElapsed(since))
	}
	if m := l.session.m; m.Phase == protocol.Open && !m.Write.Sent && !m.Reading && now.HolderElapsed(m.NotTill) >= 0 {
		sooner(m.Acked, e.p.Beat)
	}
	if !l.looking {
		sooner(l.lastLook, e.p.Observe)
	}
	if !e.away(now) {
		for _, q := range l.peers {
			if q.m.Known && !q.m.Dead() && !q.m.Writing && !q.m.Reading && !q.m.Gone && now.HolderElapsed(q.after) >= 0 {
				sooner(q.m.Seen, max(e.p.T, q.m.Lease))
			}
		}
	}
	if l.viewDirty {
		sooner(l.published, e.publishGap())
	}
	if l.reports {
		wait = min(wait, reportDelay)
	}
	wait = min(wait, e.bumpWait(now), e.mirrorWait(now), e.gatherWait())
	return max(wait, time.Millisecond)
}

// post hands do to the loop. It reports false when the loop is over: do is then never run.
func (e *Elector) post(do func()) bool {
	select {
	case e.inbox <- do:
		return true
	case <-e.over:
		return false
	}
}

// postSoon is post for callers that must not wait, the loop itself among them.
func (e *Elector) postSoon(do func()) {
	select {
	case e.inbox <- do:
	default:
		go e.post(do)
	}
}

// ask runs do in the loop and waits for it. When it returns an error do has not run, and never will, unless Run has ended.
func (e *Elector) ask(ctx context.Context, do func()) error {
	done := make(chan struct{})
	var taken atomic.Bool // by the loop, or by a caller who waits no longer
	wrapped := func() {
		if taken.CompareAndSwap(false, true) {
			do()
			close(done)
		}
	}
	select {
	case e.inbox <- wrapped:
	case <-e.over:
		return ErrClosed
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	gone := ctx.Done()
	for {
		select {
		case <-done:
			return nil
		case <-e.over:
			return ErrClosed
		case <-gone: // before Run nobody answers
			if taken.CompareAndSwap(false, true) {
				return context.Cause(ctx)
			}
			gone = nil
		}
	}
}

// beside runs do in a goroutine of its own with a context of one store operation's length, and its result in the loop.
func (e *Elector) beside(op string, do func(ctx context.Context) (then func(), err error)) {
	e.besideLong(op, func(ctx context.Context) (func(), error) {
		ctx, cancel := context.WithTimeout(ctx, e.p.Op)
		defer cancel()
		return do(ctx)
	})
}

// besideLong is beside for what takes many operations: do limits each of them.
func (e *Elector) besideLong(op string, do func(ctx context.Context) (then func(), err error)) {
	e.work.Go(func() {
		ctx := e.loop.ctx
		begin := e.clock.Now()
		then, err := do(ctx)
		if e.cfg.Hooks.StoreOp != nil {
			result := "ok"
			if err != nil {
				result = "error"
			}
			e.cfg.Hooks.StoreOp(op, result, e.clock.Now().HolderElapsed(begin))
		}
		e.post(then)
	})
}

// storeNow is the store's clock in Unix ms, as the last reply told it and the local clock carried it on. Before the first
// reply it is the local clock. It is for display and the order of age; revisions follow [revClock].
func (e *Elector) storeNow() int64 {
	offset := e.offset.Load()
	if offset == 0 {
		return wallclock.Now().UnixMilli()
	}
	return offset + e.clock.Now().Boot.Milliseconds()
}

// learnClock takes a reply's clock.
func (e *Elector) learnClock(now int64) {
	e.revs.learn(now)
	if now > 0 {
		e.offset.Store(now - e.clock.Now().Boot.Milliseconds())
	}
}

// broadcast wakes everybody who waits on the channel that wait returns.
type broadcast struct {
	mu sync.Mutex
	ch chan struct{}
}

func (b *broadcast) init() { b.ch = make(chan struct{}) }

func (b *broadcast) wait() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.ch
}

func (b *broadcast) wake() {
	b.mu.Lock()
	defer b.mu.Unlock()
	close(b.ch)
	b.ch = make(chan struct{})
}
