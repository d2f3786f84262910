package leases

import (
	"github.com/shardctl/shardctl/pkg/elect/protocol"
	"github.com/shardctl/shardctl/pkg/elect/record"
	"github.com/shardctl/shardctl/pkg/store"
)

// holding is one key. There may be very many that rest, so what only a claim or a write needs goes with it. Locks and
// statuses are shared, and are not changed.
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

	after      protocol.Instant // no repeat before, after a failure
	named      uint32           // see census
	due        bool             // status waits to be noted
	said       bool             // by the run: else status is what was found
	deleted    bool             // the lock's document was deleted
	again      bool             // see Freed
	noted      bool             // the release is acknowledged
	unwritable bool             // the store could not take the last write
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

// newest is what the run said last of itself, written or not; nil before it has said anything. It is the caller's: what
// it was copied from is changed by later writes.
func (h *holding) newest() *record.TaskStatus {
	if !h.said {
		return nil
	}
	said := *h.status
	return &said
}

// leaveOutTexts has the next write say no more than it must, since no store could take the last one.
func (h *holding) leaveOutTexts() {
	h.unwritable = true
	lock, status := *h.lock, *h.status
	lock.Instance, lock.From, lock.Reason, lock.Message = "", "", "", ""
	status.LastError = ""
	if is := status.Outcome; is != nil {
		outcome := *is
		outcome.Error, status.Outcome = "", &outcome
	}
	h.lock, h.status = &lock, &status
	h.release.Reason, h.release.Message = "", ""
}

// met says whether the condition of the write under way holds on the lock as found; nil is absent.
func (h *holding) met(lock *record.Lock) bool {
	if lock == nil {
		return h.m.IfRev == 0
	}
	return lock.Rev == h.m.IfRev
}

// waits says whether a key waits for time to pass: to repeat what was not answered, or for a valid lease.
func (h *holding) waits() bool {
	return h.m.Doubt || h.m.Op != protocol.NoOp && !h.m.Sent || h.m.Phase == protocol.Idle ||
		h.m.Seeking() && !h.m.Reading
}

// freed is the end of the key here. before is its machine before that.
func (h *holding) freed(refused bool, before protocol.Key) Freed {
	f := Freed{
		Key: h.key, Refused: refused, Again: refused && h.again, Unnoted: before.Token > 0 && !h.noted,
		Unwritable: h.unwritable,
	}
	if h.deleted {
		f.Deleted = h.lock
	}
	return f
}

// stop adds the stop of a key's run, and the end of an advance of it.
func (r *Ready) stop(h *holding, token int64, cause Cause) {
	r.refuse(h, cause)
	r.Stops = append(r.Stops, Stop{Key: h.key, Token: token, Cause: cause})
}

// advanced adds the answer to an advance. A lease that is not valid says that D has come: nothing may be started.
func (r *Ready) advanced(h *holding, token int64, valid bool) {
	switch {
	case !valid:
		r.refuse(h, Expired)
		return
	case token == 0:
		r.refuse(h, Unwritable)
		return
	}
	r.Advanced = append(r.Advanced, Advanced{Key: h.key, Token: token})
	h.advance = nil
}

// refuse ends the advance under way, if there is one.
func (r *Ready) refuse(h *holding, cause Cause) {
	if h.advance != nil {
		r.Advanced = append(r.Advanced, Advanced{Key: h.key, Cause: cause})
		h.advance = nil
	}
}
