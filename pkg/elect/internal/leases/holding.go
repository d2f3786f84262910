package leases

import (
	"github.com/shardctl/shardctl/pkg/elect/protocol"
	"github.com/shardctl/shardctl/pkg/elect/record"
	"github.com/shardctl/shardctl/pkg/elect/store"
)

// holding is one key. There may be very many that rest, so what only a claim or a write needs goes with it. Locks and
// statuses are shared, and nobody changes them.
type holding struct {
	key    record.Key
	m      protocol.Key
	lock   *record.Lock // as last acknowledged, or as read before the claim
	status *record.TaskStatus

	claim   *Claim // until the run starts; then started
	write   *write // under way; nil: none
	release Release
	advance *record.TaskStatus // of the advance under way
	fresh   bool               // status is newer than that of the advance under way
	adopt   bool               // see Claim

	after   protocol.Instant // no repeat before, after a failure
	named   uint32           // see census
	due     bool             // status waits to be noted
	deleted bool             // the lock's document was deleted
	noted   bool             // the release is acknowledged
}

// started is the claim of every key whose run has started: nothing that was known of its lock counts any more.
var started Claim

// write is a write under way.
type write struct {
	queued bool
	action protocol.KeyAction
	after  *record.Lock // what the write makes of the lock; nil before it is sent for the first time
	change store.Change
}

// sentAs says whether the key has a write under way that was sent under this writer ID.
func (h *holding) sentAs(id store.WriterID) bool {
	return h.write != nil && h.write.after != nil && h.write.change.Doc.WriterID == id
}

// waits says whether a key waits for time to pass: to repeat what was not answered, or for a valid lease.
func (h *holding) waits() bool {
	return h.m.Op != protocol.NoOp && !h.m.Sent || h.m.Phase == protocol.Idle || h.m.Seeking() && !h.m.Reading
}

// queue asks for the key's write. A repeat is the very same write; a new one is made when it is sent.
func (h *holding) queue(a protocol.KeyAction) Write {
	if w := h.write; w == nil || w.after == nil || w.change.IfRev != a.IfRev || w.change.Doc.Rev != a.NewRev {
		h.write = &write{action: a}
	}
	h.write.queued = true
	return Write{Key: h.key, Report: a.Op == protocol.Report}
}

// change is the write that is about to be sent. One that is sent for the first time gets a revision of this moment: others
// read what has changed lately by revisions, and a long queue must not make it look old.
func (h *holding) change(self Self, m protocol.Moment) store.Change {
	w := h.write
	w.queued = false
	if w.after == nil {
		h.m = h.m.Restamp(max(m.Rev, h.claim.Floor))
		w.action.NewRev = h.m.NewRev
		w.after = self.lockAfter(h, w.action, m.Clock)
		w.change = store.Change{IfRev: w.action.IfRev, Doc: w.after.Doc()}
	}
	return w.change
}

// acknowledged takes note of what the write did, before the key's machine goes on.
func (h *holding) acknowledged() Acked {
	was := h.lock
	h.lock, h.write = h.write.after, nil
	if h.m.Op == protocol.Advance && !h.fresh || *h.status == h.lock.Status {
		h.status = &h.lock.Status // the release keeps it: an outcome, the last tick
	}
	h.noted = h.m.Op == protocol.Release
	return Acked{Op: h.m.Op, Was: was, Is: h.lock}
}

// freed is the end of the key here. before is its machine before that.
func (h *holding) freed(refused bool, before protocol.Key) Freed {
	f := Freed{Key: h.key, Refused: refused, Unnoted: before.Token > 0 && !h.noted}
	if h.deleted {
		f.Deleted = h.lock
	}
	return f
}
