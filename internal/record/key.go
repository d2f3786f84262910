package record

import (
	"errors"
	"strings"

	"github.com/shardctl/shardctl/internal/protocol"
	"github.com/shardctl/shardctl/pkg/store/driver"
)

// Key names what is locked: GROUP/NAME. A group never holds a slash; a name may not either (the configuration
// sees to both), but nothing here relies on that for names.
type Key string

// GroupDiscovery is the group of the locks under which one replica looks for what exists. No group's name begins so.
const GroupDiscovery = "~discovery"

// GroupWeights is the group of the locks under which one replica publishes weights. No group's name begins so either.
const GroupWeights = "~weights"

// GroupMutexes is how IDs of mutexes begin, before a slash. The counter of the name carries the largest token of those
// that were deleted.
const GroupMutexes = "locks"

// Chore says whether the key is no task's: a replica holds it while it does something for all of them.
func (k Key) Chore() bool { return strings.HasPrefix(string(k), "~") }

// NewKey joins a group and a name.
func NewKey(group, name string) Key { return Key(group + "/" + name) }

// Group is the part before the first slash; all of it when there is none.
func (k Key) Group() string {
	group, _, _ := strings.Cut(string(k), "/")
	return group
}

// Name is the part after the first slash, empty when there is none.
func (k Key) Name() string {
	_, name, _ := strings.Cut(string(k), "/")
	return name
}

// WriterIDs gives the writer IDs of one session, each once. It is not safe for concurrent use.
type WriterIDs struct {
	Session string
	last    int64
}

// Next is a writer ID that was never given before.
func (w *WriterIDs) Next() driver.WriterID {
	w.last++
	return driver.WriterID{Session: w.Session, Seq: w.last}
}

// StatusOf is the outcome of a change as the protocol counts it. An unknown one is final where the store could never
// take the change.
func StatusOf(out driver.Outcome) protocol.Status {
	switch out.Status {
	case driver.Applied:
		return protocol.Applied
	case driver.Refused, driver.Overtaken:
		return protocol.Refused
	case driver.Unknown:
		if errors.Is(out.Err, driver.ErrMalformed) || errors.Is(out.Err, driver.ErrTooLarge) {
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

// counterUngrouped is the counter that all keys without a group share.
const counterUngrouped = "~ungrouped"

// CounterOf returns the ID of the counter, of kind group, that is incremented when the key's lock was written. It
// carries the largest revision among the locks that it counts.
func CounterOf(key Key) string {
	if key.Name() == "" {
		return counterUngrouped
	}
	return key.Group()
}
