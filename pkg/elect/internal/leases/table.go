package leases

import (
	"github.com/shardctl/shardctl/pkg/elect/protocol"
	"github.com/shardctl/shardctl/pkg/elect/record"
	"github.com/shardctl/shardctl/pkg/elect/store"
)

// Table holds the keys of one process. It is not safe for concurrent use.
type Table struct {
	keys // those that are not free

	p      protocol.Params
	self   Self
	quota  quota
	seen   sightings
	census census
	agenda
	out Ready
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
		p: p, keys: keys{}, quota: quota{owned: map[string]int{}}, seen: sightings{p: p, at: map[record.Key]sighting{}},
		agenda: newAgenda(p),
	}
}

// Begin makes the table hold keys on behalf of a new session. No key may be held.
func (t *Table) Begin(self Self) { t.self = self }

// SetLimits sets what may be claimed from now on. Keys above the new limits stay.
func (t *Table) SetLimits(l Limits) { t.quota.limits = l }

// Count begins a count of the locks that name this session: the answer is compared with Counted.
func (t *Table) Count() { t.census.begin(len(t.keys)) }

// Counted is how many locks may have named this session at some moment since Count, unless somebody edited one manually: at least those that
// were sure to do so all the time, at most all whose keys were not free at any time.
func (t *Table) Counted() (least, most int) { return t.census.least, t.census.most }

// Prepare makes the changes of these keys that are about to be sent. Keys whose write is no longer wanted are left out.
func (t *Table) Prepare(keys []record.Key, m protocol.Moment) []store.Change {
	changes := make([]store.Change, 0, len(keys))
	for _, key := range keys {
		if h := t.keys[key]; h != nil && h.write != nil && h.write.queued && h.m.Sent {
			changes = append(changes, h.change(t.self, m))
		}
	}
	return changes
}

// Ready returns what is to be done since the last call.
func (t *Table) Ready() Ready {
	r := t.out
	t.out = Ready{}
	return r
}
