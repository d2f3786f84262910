package leases

import (
	"slices"
	"time"

	"github.com/shardctl/shardctl/pkg/elect/protocol"
	"github.com/shardctl/shardctl/pkg/elect/record"
	"github.com/shardctl/shardctl/pkg/elect/store"
)

// Table holds the keys of one process. It is not safe for concurrent use.
type Table struct {
	p      protocol.Params
	self   Self
	limits Limits
	keys   map[record.Key]*holding
	owned  map[string]int          // keys not free, by group
	seen   map[record.Key]sighting // locks that are left alone for a while
	census census
	// What a tick looks at, so that keys that rest cost nothing.
	pending map[*holding]struct{} // see holding.waits
	reports delayed               // statuses to be noted
	lost    delayed               // runs that were told that their key is another's
	out     Ready
}

// Self is the session on whose behalf keys are held.
type Self struct {
	IDs      *record.WriterIDs
	Instance string
}

// Limits bound what this process owns.
type Limits struct {
	Caps     map[string]int // most keys of a group; a group left out has no cap
	MaxTasks int            // most keys of all groups; 0: no limit
}

// holding is one key.
type holding struct {
	key    record.Key
	m      protocol.Key
	lock   record.Lock // as last acknowledged, or as read before the claim
	status record.TaskStatus

	claim   Claim
	write   write
	release Release
	advance *record.TaskStatus // of the advance under way
	fresh   bool               // status is newer than that of the advance under way

	after   protocol.Instant // no repeat before, after a failure
	named   uint32           // see census
	due     bool             // status waits to be noted
	deleted bool             // the lock's document was deleted
	noted   bool             // the release is acknowledged
}

// write is the write under way.
type write struct {
	queued bool
	action protocol.KeyAction
	made   *made // nil before it is sent and once it is acknowledged: keys that rest are many
}

// made is a write as it is sent.
type made struct {
	after  record.Lock // what the write makes of the lock
	change store.Change
}

// sighting is when a lock at a revision was first met here that is to be left alone for a while.
type sighting struct {
	rev   int64
	since protocol.Instant
}

// Release is how a key is given away.
type Release struct {
	Next    string // the session it is reserved for; empty: for none
	Suspend bool   // leave the lock out of the sweeps
	Reason  record.Reason
}

// New is an empty table.
func New(p protocol.Params) *Table {
	return &Table{
		p: p, keys: map[record.Key]*holding{}, owned: map[string]int{}, seen: map[record.Key]sighting{},
		pending: map[*holding]struct{}{}, reports: delayed{by: reportDelay}, lost: delayed{by: p.T / 4},
	}
}

// Begin makes the table hold keys on behalf of a new session. No key may be held.
func (t *Table) Begin(self Self) { t.self = self }

// SetLimits sets what may be claimed from now on. Keys above the new limits stay.
func (t *Table) SetLimits(l Limits) { t.limits = l }

// Len is the number of keys that are not free.
func (t *Table) Len() int { return len(t.keys) }

// Holds says whether the key is not free here.
func (t *Table) Holds(key record.Key) bool { return t.keys[key] != nil }

// Status is what the lock says of the key's work, or will say once it has been written.
func (t *Table) Status(key record.Key) record.TaskStatus {
	if h := t.keys[key]; h != nil {
		return h.status
	}
	return record.TaskStatus{}
}

// Running says whether the key's run goes on and was not asked to stop.
func (t *Table) Running(key record.Key) bool {
	h := t.keys[key]
	return h != nil && h.m.Phase == protocol.Running
}

// Keeps says whether the key's run goes on under a lease that has neither run out nor been lost.
func (t *Table) Keeps(key record.Key) bool {
	h := t.keys[key]
	return h != nil && !h.m.Lost && !h.m.Expired
}

// Started lists the keys whose run has started and not returned, in order.
func (t *Table) Started() []record.Key {
	var keys []record.Key
	for key, h := range t.keys {
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
}

// Held is a snapshot of all keys that are not free.
func (t *Table) Held() map[record.Key]Held {
	held := make(map[record.Key]Held, len(t.keys))
	for key, h := range t.keys {
		held[key] = Held{Phase: h.m.Phase, Token: h.m.Token, Releasing: h.m.GiveUp, Next: h.release.Next}
	}
	return held
}

// Count begins a count of the locks that name this session: the answer is compared with Counted.
func (t *Table) Count() { t.census.begin(len(t.keys)) }

// Counted is how many locks may have named this session at some moment since Count, unless somebody edited one manually: at least those that
// were sure to do so all the time, at most all whose keys were not free at any time.
func (t *Table) Counted() (least, most int) { return t.census.least, t.census.most }

// Settled says whether the key runs, also one that is being stopped, and has no write under way, so that what a read finds can be
// compared with it.
func (t *Table) Settled(key record.Key) bool {
	h := t.keys[key]
	if h == nil || h.m.Op != protocol.NoOp {
		return false
	}
	return h.m.Phase == protocol.Running || h.m.Phase == protocol.Stopping && !h.m.Lost
}

// AllSettled lists the keys that are settled, in no order.
func (t *Table) AllSettled() []record.Key {
	var keys []record.Key
	for key := range t.keys {
		if t.Settled(key) {
			keys = append(keys, key)
		}
	}
	return keys
}

// Rev is the revision of the key's lock as last acknowledged; 0 for a key that is free here.
func (t *Table) Rev(key record.Key) int64 {
	if h := t.keys[key]; h != nil {
		return h.m.Rev
	}
	return 0
}

// reportDelay is how long a status waits for a newer one: a run that starts and stops at once is noted once, and the writes of a
// hand-over are not held up by statuses.
const reportDelay = 200 * time.Millisecond

// ReportDelay is how long the loop may sleep while statuses wait; ok is false when none does.
func (t *Table) ReportDelay(now protocol.Instant) (time.Duration, bool) { return t.reports.wait(now) }
