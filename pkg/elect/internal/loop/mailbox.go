package loop

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/shardctl/shardctl/pkg/elect/internal/engine"
)

// Errors that package elect shows under the same names.
var (
	ErrClosed     = errors.New("elector closed")
	ErrNotRunning = errors.New("elector not running")
)

// mailbox is how everything else reaches the loop.
type mailbox struct {
	inbox   chan func(*engine.Engine)
	over    chan struct{} // closed when the loop has ended
	gone    chan struct{} // closed when nothing of it is left
	started atomic.Bool
}

func newMailbox() *mailbox {
	return &mailbox{inbox: make(chan func(*engine.Engine), 256), over: make(chan struct{}), gone: make(chan struct{})}
}

// post hands do to the loop. When the loop is over do is never run.
func (b *mailbox) post(do func(n *engine.Engine)) {
	select {
	case b.inbox <- do:
	case <-b.over:
	}
}

// Post is post for callers that must not wait, the loop itself among them. Before the start nothing empties the
// inbox: what it cannot take is dropped then.
func (b *mailbox) Post(do func(n *engine.Engine)) {
	select {
	case b.inbox <- do:
	default:
		if b.started.Load() {
			go b.post(do)
		}
	}
}

// Send is post that waits only as long as ctx goes on. When it returns an error do is never run.
func (b *mailbox) Send(ctx context.Context, do func(n *engine.Engine)) error {
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
func (b *mailbox) Ask(ctx context.Context, do func(n *engine.Engine)) error {
	if !b.started.Load() {
		return ErrNotRunning
	}
	done := make(chan struct{})
	var taken atomic.Bool // by the loop, or by a caller who waits no longer
	wrapped := func(n *engine.Engine) {
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
func (b *mailbox) drain(n *engine.Engine) {
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
