package elect

import (
	"time"

	"github.com/shardctl/shardctl/pkg/elect/internal/engine"
	"github.com/shardctl/shardctl/pkg/elect/protocol"
)

// Hooks observe an elector, for metrics and traces. Nil functions are skipped; they must not block.
type Hooks struct {
	Heartbeat func(took time.Duration, err error)
	StoreOp   func(op, result string, took time.Duration)
	Claim     func(group, result string) // result: won, lost, failed
	Release   func(group string, reason Reason)
	Move      func(group string, reason Reason)
	Failover  func(group string, took time.Duration) // from the dead owner's last heartbeat seen to the start here
	Handover  func(group string, took time.Duration) // from the release, by the store's clock, to the start here
	Key       func(KeyChange)                        // each step of a key; those of one key come in order
	Mutex     func(MutexChange)                      // each step of a call for a mutex; those of one come in order
	Events    func()                                 // there may be new events in the store, of any instance
	Lists     func()                                 // there may be a new list that replicas read, likewise
}

func (h Hooks) mutex(c MutexChange) {
	if h.Mutex != nil {
		h.Mutex(c)
	}
}

func (h Hooks) claimed(group, result string) {
	if h.Claim != nil {
		h.Claim(group, result)
	}
}

func (h Hooks) released(group string, reason Reason) {
	if h.Release != nil {
		h.Release(group, reason)
	}
}

func (h Hooks) moved(group string, reason Reason) {
	if h.Move != nil {
		h.Move(group, reason)
	}
}

// started says how long a key was without a run.
func (h Hooks) started(s engine.Start, m protocol.Moment) {
	group := s.Key.Group()
	switch {
	case s.Died != nil && h.Failover != nil:
		h.Failover(group, m.Now.HolderElapsed(*s.Died))
	case s.HandedOver > 0 && h.Handover != nil:
		h.Handover(group, max(0, time.Duration(m.Clock-s.HandedOver)*time.Millisecond))
	}
}

// heartbeat says how long a heartbeat took, and whether it was acknowledged.
func (h Hooks) heartbeat(took time.Duration, err error) {
	if h.Heartbeat != nil {
		h.Heartbeat(took, err)
	}
}

// operation says how long a store operation took.
func (h Hooks) operation(op string, took time.Duration, err error) {
	if h.StoreOp == nil {
		return
	}
	result := "ok"
	if err != nil {
		result = "error"
	}
	h.StoreOp(op, result, took)
}
