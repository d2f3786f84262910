package subscribe

import (
	"context"
	"errors"
	"slices"
)

// poller receives from a subscription, one call at a time. The feed's goroutine owns it, but for serve.
type poller struct {
	sub       Subscription
	received  chan received
	want      chan wanted
	busy      bool               // a call goes on, or there is no more to be
	calls     context.Context    //nolint:containedctx // of all calls
	interrupt context.CancelFunc // ends the call that goes on
	paused    []string           // partitions
}

// wanted is a call of Receive.
type wanted struct {
	ctx  context.Context //nolint:containedctx // of the call
	most int
}

type received struct {
	messages []Message
	err      error
}

func newPoller(calls context.Context, sub Subscription) *poller {
	// The last result may come when the feed is over.
	return &poller{sub: sub, calls: calls, want: make(chan wanted, 1), received: make(chan received, 1)}
}

// poll receives up to free messages, of all partitions but the full ones. A call that leaves out others is ended first.
func (p *poller) poll(free int, full []string) {
	changed := !slices.Equal(full, p.paused)
	switch {
	case p.busy && changed:
		p.interrupt()
	case p.busy || free == 0:
	default:
		if pausing, ok := p.sub.(Pausing); ok && changed {
			pausing.Pause(full)
			p.paused = full
		}
		w := wanted{most: free}
		w.ctx, p.interrupt = context.WithCancel(p.calls)
		p.busy = true
		p.want <- w
	}
}

// done takes that a call has returned. After an error there is none any more.
func (p *poller) done(r received) {
	p.busy = r.err != nil
	p.interrupt()
}

// serve calls Receive until one fails, or want is closed.
func (p *poller) serve() {
	for w := range p.want {
		messages, err := p.sub.Receive(w.ctx, w.most)
		if p.calls.Err() == nil && w.ctx.Err() != nil && errors.Is(err, context.Canceled) {
			err = nil // it was interrupted
		}
		p.received <- received{messages, err}
		if err != nil {
			return
		}
	}
}
