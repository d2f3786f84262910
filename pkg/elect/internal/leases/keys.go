package leases

import (
	"iter"
	"slices"

	"github.com/shardctl/shardctl/pkg/elect/protocol"
	"github.com/shardctl/shardctl/pkg/elect/record"
)

// keys are the keys that are not free here. Its methods are questions: they change nothing.
type keys map[record.Key]*holding

// Len is the number of keys that are not free.
func (k keys) Len() int { return len(k) }

// Holds says whether the key is not free here.
func (k keys) Holds(key record.Key) bool { return k[key] != nil }

// Status is what the lock says of the key's work, or will say once it has been written.
func (k keys) Status(key record.Key) record.TaskStatus {
	if h := k[key]; h != nil {
		return *h.status
	}
	return record.TaskStatus{}
}

// Running says whether the key's run goes on and was not asked to stop.
func (k keys) Running(key record.Key) bool {
	h := k[key]
	return h != nil && h.m.Phase == protocol.Running
}

// Keeps says whether the key's run goes on under a lease that has neither run out nor been lost.
func (k keys) Keeps(key record.Key) bool {
	h := k[key]
	return h != nil && !h.m.Lost && !h.m.Expired
}

// Started lists the keys whose run has started and not returned, in order.
func (k keys) Started() []record.Key {
	var keys []record.Key
	for key, h := range k {
		if h.m.Phase == protocol.Running || h.m.Phase == protocol.Stopping {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}

// Held is one key as others may see it.
type Held struct {
	Phase     protocol.KeyPhase
	Token     int64
	Releasing bool   // it was asked for
	Next      string // with Releasing: the session it will be reserved for
	// Status is what its run said of itself last, also what is not written yet; nil: nothing. It is not changed.
	Status *record.TaskStatus
}

// Held are all keys that are not free, in no order.
func (k keys) Held() iter.Seq2[record.Key, Held] {
	return func(yield func(record.Key, Held) bool) {
		for key, h := range k {
			held := Held{
				Phase: h.m.Phase, Token: h.m.Token, Releasing: h.m.GiveUp, Next: h.release.Next, Status: h.newest(),
			}
			if !yield(key, held) {
				return
			}
		}
	}
}

// Settled says whether the key runs, also one that is being stopped, and has no write under way. Then what a read finds
// can be compared with it.
func (k keys) Settled(key record.Key) bool {
	h := k[key]
	if h == nil || h.m.Op != protocol.NoOp {
		return false
	}
	return h.m.Phase == protocol.Running || h.m.Phase == protocol.Stopping && !h.m.Lost
}

// AllSettled lists the keys that are settled, in no order.
func (k keys) AllSettled() []record.Key {
	var keys []record.Key
	for key := range k {
		if k.Settled(key) {
			keys = append(keys, key)
		}
	}
	return keys
}

// Rev is the revision of the key's lock as last acknowledged; 0 for a key that is free here.
func (k keys) Rev(key record.Key) int64 {
	if h := k[key]; h != nil {
		return h.m.Rev
	}
	return 0
}

// Advancing says whether an advance of the key is under way.
func (k keys) Advancing(key record.Key) bool {
	h := k[key]
	return h != nil && h.advance != nil
}
