package record

import (
	"errors"

	"github.com/shardctl/shardctl/pkg/elect/protocol"
	"github.com/shardctl/shardctl/pkg/store"
)

// WriterIDs gives the writer IDs of one session, each once. It is not safe for concurrent use.
type WriterIDs struct {
	Session string
	last    int64
}

// Next is a writer ID that was never given before.
func (w *WriterIDs) Next() store.WriterID {
	w.last++
	return store.WriterID{Session: w.Session, Seq: w.last}
}

// StatusOf is the outcome of a change as the protocol counts it. An unknown one is final where the store could never
// take the change.
func StatusOf(out store.Outcome) protocol.Status {
	switch out.Status {
	case store.Applied:
		return protocol.Applied
	case store.Refused, store.Overtaken:
		return protocol.Refused
	case store.Unknown:
		if errors.Is(out.Err, store.ErrMalformed) || errors.Is(out.Err, store.ErrTooLarge) {
			return protocol.Unwritable
		}
	}
	return protocol.Unknown
}

// StateName is a protocol state as a session's document says it.
func StateName(s protocol.State) SessionState {
	switch s {
	case protocol.Live:
		return Live
	case protocol.Draining:
		return Draining
	default:
		return Dead
	}
}

// StateOf is what a session's document says as a protocol state.
func StateOf(name string) protocol.State {
	switch SessionState(name) {
	case Live:
		return protocol.Live
	case Draining:
		return protocol.Draining
	case Dead:
		return protocol.Dead
	default:
		return protocol.Other
	}
}
