package leases

import (
	"github.com/shardctl/shardctl/pkg/elect/protocol"
	"github.com/shardctl/shardctl/pkg/elect/record"
	"github.com/shardctl/shardctl/pkg/elect/store"
)

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

// waits says whether a key waits for time to pass: to repeat what was not answered, or for a valid lease.
func (h *holding) waits() bool {
	return h.m.Op != protocol.NoOp && !h.m.Sent || h.m.Phase == protocol.Idle || h.m.Seeking() && !h.m.Reading
}

// queue asks for the key's write. A repeat is the very same write; a new one is made when it is sent.
func (h *holding) queue(a protocol.KeyAction) Write {
	if w := h.write.made; w == nil || w.change.IfRev != a.IfRev || w.change.Doc.Rev != a.NewRev {
		h.write.made, h.write.action = nil, a
	}
	h.write.queued = true
	return Write{Key: h.key, Report: a.Op == protocol.Report}
}

// change is the write that is about to be sent. One that is sent for the first time gets a revision of this moment: others
// read what has changed lately by revisions, and a long queue must not make it look old.
func (h *holding) change(self Self, m protocol.Moment) store.Change {
	w := &h.write
	w.queued = false
	if w.made == nil {
		h.m = h.m.Restamp(max(m.Rev, h.claim.Floor))
		w.action.NewRev = h.m.NewRev
		after := self.lockAfter(h, w.action, m.Clock)
		w.made = &made{after: after, change: store.Change{IfRev: w.action.IfRev, Doc: after.Doc()}}
	}
	return w.made.change
}

// acknowledged takes note of what the write did, before the key's machine goes on.
func (h *holding) acknowledged() Acked {
	was := h.lock
	h.lock = h.write.made.after
	h.write.made = nil
	if h.m.Op == protocol.Advance && !h.fresh {
		h.status = h.lock.Status // the release keeps it: an outcome, the last tick
	}
	h.noted = h.m.Op == protocol.Release
	return Acked{Op: h.m.Op, Was: was, Is: h.lock}
}

// freed is the end of the key here. before is its machine before that.
func (h *holding) freed(refused bool, before protocol.Key) Freed {
	f := Freed{Key: h.key, Refused: refused, Unnoted: before.Token > 0 && !h.noted}
	if h.deleted {
		lock := h.lock
		f.Deleted = &lock
	}
	return f
}
