package elect

import (
	"context"
	"errors"
	"fmt"
)

// Elector is one process's part in the protocol. It has a session with one heartbeat for all its keys, the keys it
// holds, and what it knows of the others. Create it with [Start], or with [New] and run it with [Elector.Run].
//
// All decisions are taken by one goroutine (the loop), which never waits for the store: store operations run
// asynchronously and report back. Methods may be called concurrently.
type Elector struct {
	*core
	loop *loop // touched by its own goroutine only
}

var _ Elect = (*Elector)(nil)

// New makes an Elector. It checks the configuration, all of it, and touches nothing else.
func New(cfg Config) (*Elector, error) {
	cfg.setDefaults()
	p, err := cfg.validate()
	if err != nil {
		return nil, err
	}
	return &Elector{core: newCore(cfg, p)}, nil
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
func (e *Elector) Start(ctx context.Context) error {
	if !e.box.started.CompareAndSwap(false, true) {
		return errors.New("elect: started before")
	}
	background, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	e.loop = newLoop(background, cancel, e.core)
	close(e.box.ready)
	go e.loop.run(ctx)
	return nil
}

// Wait waits until the elector has ended. It returns nil after Close or the end of the context that it was started
// with. The context of the work under way is cancelled with cause ErrReleased then. When the store does not answer for
// the length of the lease, and nothing runs any more, it returns an error that wraps [store.ErrUnavailable]. Others
// free the keys. ErrNotRunning before Start.
//
// Releasing in order has no time limit here: a run that ignores its context is waited for. A caller that needs a
// limit ends the process.
func (e *Elector) Wait() error {
	if !e.box.started.Load() {
		return ErrNotRunning
	}
	<-e.box.gone
	return e.loop.ended
}

// Run is Start and Wait.
func (e *Elector) Run(ctx context.Context) error {
	if err := e.Start(ctx); err != nil {
		return err
	}
	return e.Wait()
}

// Done returns a channel that is closed when the elector has ended.
func (e *Elector) Done() <-chan struct{} { return e.box.over }

// Close implements [Elect].
func (e *Elector) Close(ctx context.Context) error {
	if !e.box.started.Load() {
		return ErrNotRunning
	}
	if _, inside := runKey(ctx, e.core); inside {
		return fmt.Errorf("close: %w", ErrInsideRun)
	}
	<-e.box.ready // Run may have begun a moment ago
	e.box.postSoon(e.loop.Close)
	select {
	case <-e.box.over:
		return e.loop.ended
	case <-ctx.Done():
		return fmt.Errorf("close: keys are still held: %w", context.Cause(ctx))
	}
}
