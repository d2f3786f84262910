package leases

import (
	"github.com/shardctl/shardctl/pkg/elect/protocol"
	"github.com/shardctl/shardctl/pkg/elect/record"
	"github.com/shardctl/shardctl/pkg/store"
)

// Table holds the keys of one process. It is not safe for concurrent use.
type Table struct {
	Census Census
	keys   // those that are not free

	p     protocol.Params
	self  Self
	quota quota
	seen  sightings
	agenda
	out Ready
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

// Prepare makes the changes of these keys that are about to be sent. Keys whose write is no longer wanted are left
// out.
func (t *Table) Prepare(keys []record.Key, m protocol.Moment) []store.Change {
	changes := make([]store.Change, 0, len(keys))
	for _, key := range keys {
		if h := t.keys[key]; h != nil && h.write != nil && h.write.queued && h.m.Sent {
			change := h.change(t.self, m)
			if h.m.Op == protocol.Claim {
				change.Claim = t.p.T
			}
			changes = append(changes, change)
		}
	}
	return changes
}

// Ready returns what is to be done since the last call.
func (t *Table) Ready() Ready {
	if t.out.Empty() { // as most of the time
		return Ready{}
	}
	r := t.out
	t.out = Ready{}
	return r.sorted()
}

// step feeds one key's machine and notes what it wants done.
func (t *Table) step(h *holding, ev protocol.KeyEvent, m protocol.Moment) {
	ev.Valid = m.Valid
	ev.Clock = max(m.Rev, h.claim.Floor)
	before := h.m
	var acts []protocol.KeyAction
	h.m, acts = h.m.Step(ev)
	t.out.Changed = t.out.Changed || before.Phase != h.m.Phase || before.Token != h.m.Token ||
		before.GiveUp != h.m.GiveUp
	for _, a := range acts {
		t.act(h, a, before, m)
	}
	t.Census.changed(h)
	t.changed(h)
}

func (t *Table) act(h *holding, a protocol.KeyAction, before protocol.Key, m protocol.Moment) {
	switch a.Kind {
	case protocol.WriteKey:
		t.out.Writes = append(t.out.Writes, h.queue(a))
	case protocol.ReadKey:
		t.out.Reads = append(t.out.Reads, Read{Key: h.key, Create: h.m.Seeking()})
	case protocol.StartKey:
		t.out.Starts = append(t.out.Starts, t.self.start(h, a.Token))
		h.claim = &started
	case protocol.StopKey:
		cause := Released
		if h.m.Expired {
			cause = Expired
		}
		t.out.stop(h, before.Token, cause)
	case protocol.KillKey:
		t.lost.add(h, m.Now)
		t.out.stop(h, before.Token, Lost)
	case protocol.Advanced:
		t.out.advanced(h, a.Token, m.Valid)
	case protocol.KeyOff:
		t.off(h, a.Refused, before)
	}
}

// off forgets a key that is free here.
func (t *Table) off(h *holding, refused bool, before protocol.Key) {
	delete(t.keys, h.key)
	t.quota.freed(h.key.Group())
	t.Census.freed()
	t.out.Changed = true
	t.out.refuse(h, Lost)
	t.out.Freed = append(t.out.Freed, h.freed(refused, before))
}
