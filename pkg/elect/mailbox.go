package elect

import (
	"context"
	"sync/atomic"
)

// mailbox is how everything else reaches the loop.
type mailbox struct {
	inbox   chan func()
	ready   chan struct{} // closed once the loop has something to work on
	over    chan struct{} // closed when the loop has ended
	gone    chan struct{} // closed when nothing of it is left
	started atomic.Bool
}

func newMailbox() *mailbox {
	return &mailbox{
		inbox: make(chan func(), 256), ready: make(chan struct{}), over: make(chan struct{}), gone: make(chan struct{}),
	}
}

// post hands do to the loop. When the loop is over do is never run.
func (b *mailbox) post(do func()) {
	select {
	case b.inbox <- do:
	case <-b.over:
	}
}

// postSoon is post for callers that must not wait, the loop itself among them. Before the start nothing empties the
// inbox: what it has no room for is dropped then.
func (b *mailbox) postSoon(do func()) {
	select {
	case b.inbox <- do:
	default:
		if b.started.Load() {
			go b.post(do)
		}
	}
}

// send is post that waits only as long as ctx goes on. When it returns an error do is never run.
func (b *mailbox) send(ctx context.Context, do func()) error {
	select {
	case b.inbox <- do:
		return nil
	case <-b.over:
		return ErrClosed
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// ask runs do in the loop and waits for it. When it returns an error do has not run, and never will, unless the
// loop has ended.
func (b *mailbox) ask(ctx context.Context, do func()) error {
	if !b.started.Load() {
		return ErrNotRunning
	}
	<-b.ready
	done := make(chan struct{})
	var taken atomic.Bool // by the loop, or by a caller who waits no longer
	wrapped := func() {
		if taken.CompareAndSwap(false, true) {
			do()
			close(done)
		}
	}
	if err := b.send(ctx, wrapped); err != nil {
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
