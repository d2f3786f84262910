package elect

import (
	"time"

	"github.com/shardctl/shardctl/internal/electing"
	"github.com/shardctl/shardctl/internal/protocol"
	"github.com/shardctl/shardctl/pkg/elect/internal/engine"
)

// observer hands what has happened to a guard and to hooks.
type observer struct {
	params protocol.Params
	guard  electing.Guard // nil: there is none
	hooks  hooks
}

// observe hands on one event.
func (o observer) observe(x engine.Event) {
	switch x := x.(type) {
	case engine.LeaseChanged: // the loop's own
	case engine.SessionOpening:
		if o.guard != nil {
			o.guard.SessionOpening(x.Session)
		}
	case engine.SessionOver:
		if o.guard != nil {
			o.guard.SessionOver(x.Session)
		}
	case engine.LeaseRenewed:
		if o.guard != nil {
			o.guard.Renewed(x.Session, x.Acked, o.params.T, o.params.Renew)
		}
	case engine.KeyClaiming:
		o.hooks.step(electing.KeyClaiming, x.Key)
	case engine.Acked:
		o.hooks.acked(x)
	case engine.RunStarted:
		o.hooks.started(x.Start, x.At)
	case engine.KeyStopping:
		o.hooks.step(electing.KeyStopping, x.Key)
	case engine.Freed:
		if x.Refused {
			o.hooks.claimed(x.Key.Group(), "lost")
		}
		o.hooks.step(electing.KeyFreed, x.Key)
	case engine.StoreOperation:
		o.hooks.operation(x.Op, x.Took, x.Err)
	case engine.HeartbeatAnswered:
		o.hooks.heartbeat(x.Took, x.Err)
	case engine.EventsWritten:
		if o.hooks.Events != nil {
			o.hooks.Events()
		}
	case engine.ListPublished:
		if o.hooks.Lists != nil {
			o.hooks.Lists()
		}
	}
}

// hooks are those of the program. A function that is nil is skipped.
type hooks electing.Hooks

func (h hooks) claimed(group, result string) {
	if h.Claim != nil {
		h.Claim(group, result)
	}
}

func (h hooks) released(group string, reason Reason) {
	if h.Release != nil {
		h.Release(group, reason)
	}
}

func (h hooks) moved(group string, reason Reason) {
	if h.Move != nil {
		h.Move(group, reason)
	}
}

// started says how long a key was without a run.
func (h hooks) started(s engine.Start, m protocol.Moment) {
	group := s.Key.Group()
	switch {
	case s.Died != nil && h.Failover != nil:
		h.Failover(group, m.Now.HolderElapsed(*s.Died))
	case s.HandedOver > 0 && h.Handover != nil:
		h.Handover(group, max(0, time.Duration(m.Clock-s.HandedOver)*time.Millisecond))
	}
}

// heartbeat says how long a heartbeat took, and whether it was acknowledged.
func (h hooks) heartbeat(took time.Duration, err error) {
	if h.Heartbeat != nil {
		h.Heartbeat(took, err)
	}
}

// operation says how long a store operation took.
func (h hooks) operation(op string, took time.Duration, err error) {
	if h.StoreOp == nil {
		return
	}
	result := "ok"
	if err != nil {
		result = "error"
	}
	h.StoreOp(op, result, took)
}

// step reports a step of a key.
func (h hooks) step(step electing.KeyStep, key Key) {
	if h.Key != nil {
		h.Key(electing.KeyChange{Step: step, Key: key})
	}
}

// written reports an acknowledged write of a key.
func (h hooks) written(a engine.Acked) {
	if h.Key == nil {
		return
	}
	switch a.Op {
	case protocol.Claim:
		h.Key(electing.KeyChange{Step: electing.KeyClaimed, Key: a.Is.Key, Was: a.Was, Is: a.Is})
	case protocol.Release:
		h.Key(electing.KeyChange{Step: electing.KeyReleased, Key: a.Is.Key, Was: a.Was, Is: a.Is})
	case protocol.Advance, protocol.Report, protocol.NoOp:
	}
}

// acked reports an acknowledged write of a key.
func (h hooks) acked(a engine.Acked) {
	h.written(a)
	group := a.Is.Key.Group()
	switch a.Op {
	case protocol.Claim:
		h.claimed(group, "won")
		if a.Moved() {
			h.moved(group, a.Is.Reason)
		}
	case protocol.Release:
		h.released(group, a.Is.Reason)
	case protocol.Advance, protocol.Report, protocol.NoOp:
	}
}
