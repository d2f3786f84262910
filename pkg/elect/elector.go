package elect

import (
	"context"
	"fmt"
	"time"

	"github.com/shardctl/shardctl/internal/electing"
	"github.com/shardctl/shardctl/internal/record"
	"github.com/shardctl/shardctl/internal/refusals"
	"github.com/shardctl/shardctl/pkg/elect/internal/engine"
	"github.com/shardctl/shardctl/pkg/elect/internal/loop"
	"github.com/shardctl/shardctl/pkg/store"
)

// Elector is one process's part in the protocol. It has a session with one heartbeat for all its keys, the keys it
// holds, and what it knows of the others. Create it with [Start], or with [New] and run it with [Elector.Run].
//
// All decisions are taken by one goroutine (the loop), which never waits for the store: store operations run
// asynchronously and report back. Methods may be called concurrently.
type Elector struct {
	*process

	cfg     Config
	mutexes Mutexes
	// takes makes the work of a key that is handed over; nil: it is claimed by Claim alone. Only the loop touches it.
	takes func(Key) Runnable
}

var _ Elect = (*Elector)(nil)

// New makes an Elector. It checks the configuration, all of it, and touches nothing else.
func New(cfg Config) (*Elector, error) {
	cfg.setDefaults()
	p, err := cfg.validate()
	if err != nil {
		return nil, err
	}
	// Who watches a store of their own tells what it refuses in their own way.
	if _, watched := cfg.Store.(*refusals.Store); !watched {
		cfg.Store = refusals.New(cfg.Store, cfg.LeaseDuration/2, func(r refusals.Refusal) {
			cfg.Logger.Error(r.Err, "Calls of the store fail again and again", "op", r.Doing())
		})
	}
	e := &Elector{process: &process{log: cfg.Logger}, cfg: cfg}
	calls := newMutexCalls(e.process, cfg.Inside.Hooks.Mutex)
	e.loop = loop.New(cfg.Store, cfg.Clock, engine.Config{
		Params: p, Member: cfg.Member, Predecessors: predecessors(cfg.Inside.Predecessors, cfg.Logger), Log: cfg.Logger,
		Calls: calls, Reserved: e.reserved, OnStuck: cfg.OnStuck,
		Observe: observer{params: p, guard: cfg.Inside.Guard, hooks: hooks(cfg.Inside.Hooks)}.observe,
	})
	e.mutexes = Mutexes{calls: calls, names: newClaimNames()}
	return e, nil
}

// Start makes an Elector and starts it, as [Elector.Start] does.
func Start(ctx context.Context, cfg Config) (*Elector, error) {
	e, err := New(cfg)
	if err != nil {
		return nil, err
	}
	return e, e.Start(ctx)
}

// Start starts the loop and returns: from now on all other methods are served. When ctx ends it releases every key,
// in order, and ends the session; [Elector.Wait] returns then. It may be called once.
func (e *Elector) Start(ctx context.Context) error { return e.loop.Start(ctx) }

// Wait waits until the elector has ended. It returns nil after Close or the end of the context that it was started
// with. The context of the work under way is cancelled with cause ErrReleased then. When the store does not answer for
// the length of the lease, and nothing runs any more, it returns an error that wraps [store.ErrUnavailable] and what
// the store has said last. What the store refuses for good ([driver.Lasting]) is not waited for. Others free the keys.
// ErrNotRunning before Start.
//
// Releasing in order has no time limit here: a run that ignores its context is waited for. A caller that needs a
// limit ends the process.
func (e *Elector) Wait() error { return e.loop.Wait() }

// Run is Start and Wait.
func (e *Elector) Run(ctx context.Context) error {
	if err := e.Start(ctx); err != nil {
		return err
	}
	return e.Wait()
}

// Done returns a channel that is closed when the elector has ended.
func (e *Elector) Done() <-chan struct{} { return e.loop.Over() }

// Close implements [Elect].
func (e *Elector) Close(ctx context.Context) error {
	if !e.loop.Started() {
		return ErrNotRunning
	}
	if _, inside := runKey(ctx, e.loop); inside {
		return fmt.Errorf("close: %w", ErrInsideRun)
	}
	ctx, cancel := electing.Release(ctx, e.cfg.LeaseDuration)
	defer cancel()
	e.loop.Post((*engine.Engine).Close)
	select {
	case <-e.loop.Over():
		return e.loop.Ended()
	case <-ctx.Done():
		trouble := e.trouble(func(n *engine.Engine) error { return n.Trouble.Closing() })
		return fmt.Errorf("close: keys are still held: %w", withTrouble(context.Cause(ctx), trouble))
	}
}

// Session is this process's session, and whether its lease is valid now. It asks only the local clock, as [Lease.Valid]
// does. The ID is empty before the first session is open. It is for those who keep documents of their own under the
// session: others may take them over once its document says that it is dead.
func (e *Elector) Session() (id string, valid bool) {
	id = e.loop.Lease.Session()
	return id, e.loop.Lease.Valid(id)
}

// SessionDeadline is this process's session, and the time until nothing of its work may be alive any more unless the
// lease is renewed before: 0 or less when that moment has come, also for work of a session that was lost and has no
// successor yet. The ID is empty before the first session is open.
func (e *Elector) SessionDeadline() (id string, left time.Duration) {
	id = e.loop.Lease.Session()
	left, ok := e.loop.Lease.UntilHard(id)
	if !ok {
		return id, 0
	}
	return id, left
}

// LeaseDuration is T, the duration of this process's lease, as the configuration or the default has it.
func (e *Elector) LeaseDuration() time.Duration { return e.cfg.LeaseDuration }

// Mutexes are those of the elector, which needs to be started before the first call.
func (e *Elector) Mutexes() Mutexes { return e.mutexes }

// claim begins to take a key: lock is as read.
func (e *Elector) claim(
	n *engine.Engine, lock record.Lock, opts LockOptions, run Runnable, started chan<- lockResult,
) {
	answer := func(ok bool, err error) {
		if started != nil {
			started <- lockResult{ok, err}
		}
	}
	if r := runOf(n, lock.Key); r != nil {
		ok := opts.Reentrant && n.Moment().Valid && n.Keys.Held.Running(lock.Key)
		if ok {
			r.begin(run)
		}
		answer(ok, r.underWay(n))
		return
	}
	if n.Self.Leaving() {
		answer(false, ErrClosed)
		return
	}
	switch n.Claim(engine.Claim{
		Lock: lock, Reason: opts.Reason, Message: opts.Message, AnyCap: opts.AnyCap, Adopt: opts.adopt,
		Work: &keyRun{process: e.process, key: lock.Key, first: run, started: started},
	}) {
	case engine.ClaimBegun:
	case engine.ClaimHeldHere, engine.ClaimTaken, engine.ClaimEdited:
		answer(false, nil)
	case engine.ClaimFull:
		answer(false, ErrCapReached)
	case engine.ClaimInvalid:
		answer(false, store.ErrUnavailable)
	}
}

// reserved claims what was handed over. What the caps forbid is left to the caller of Decline.
func (e *Elector) reserved(n *engine.Engine, lock record.Lock) {
	if e.takes == nil {
		return
	}
	if run := e.takes(lock.Key); run != nil {
		e.claim(n, lock, LockOptions{adopt: true}, run, nil)
	}
}

// trouble asks the loop what the store has said, also when the context of the call has ended. It is nil when the loop
// is over.
func (e *Elector) trouble(of func(n *engine.Engine) error) (err error) {
	_ = e.loop.Ask(context.Background(), func(n *engine.Engine) { err = of(n) })
	return err
}
