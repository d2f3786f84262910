package elect

import (
	"github.com/shardctl/shardctl/pkg/elect/internal/engine"
	"github.com/shardctl/shardctl/pkg/elect/protocol"
	"github.com/shardctl/shardctl/pkg/elect/record"
)

// KeyStep is what has happened to a key at one elector.
type KeyStep uint8

// The steps of a key. Every KeyClaiming is followed by a KeyFreed in the end.
const (
	KeyClaiming KeyStep = iota // a claim is decided, and is to be written
	KeyClaimed                 // the store has acknowledged the claim
	KeyStopping                // what runs is asked to end
	KeyReleased                // the store has acknowledged the release
	KeyFreed                   // the key is not held here any more, or its claim was refused
)

// KeyChange is a step of a key, for traces.
type KeyChange struct {
	Step KeyStep
	Key  Key
	// Was and Is are the lock before and after the write, of KeyClaimed and KeyReleased; else nil. They are shared, and
	// must not be changed.
	Was, Is *record.Lock
}

// step reports a step of a key.
func (h Hooks) step(step KeyStep, key Key) {
	if h.Key != nil {
		h.Key(KeyChange{Step: step, Key: key})
	}
}

// written reports an acknowledged write of a key.
func (h Hooks) written(a engine.Acked) {
	if h.Key == nil {
		return
	}
	switch a.Op {
	case protocol.Claim:
		h.Key(KeyChange{Step: KeyClaimed, Key: a.Is.Key, Was: a.Was, Is: a.Is})
	case protocol.Release:
		h.Key(KeyChange{Step: KeyReleased, Key: a.Is.Key, Was: a.Was, Is: a.Is})
	case protocol.Advance, protocol.Report, protocol.NoOp:
	}
}
