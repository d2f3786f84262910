package leases

import (
	"github.com/shardctl/shardctl/pkg/elect/protocol"
	"github.com/shardctl/shardctl/pkg/elect/record"
	"github.com/shardctl/shardctl/pkg/elect/store"
)

// queue asks for a key's write. A repeat is the very same write; a new one is made when it is sent.
func (t *Table) queue(h *holding, a protocol.KeyAction) {
	if w := h.write.made; w == nil || w.change.IfRev != a.IfRev || w.change.Doc.Rev != a.NewRev {
		h.write.made, h.write.action = nil, a
	}
	h.write.queued = true
	t.out.Writes = append(t.out.Writes, Write{Key: h.key, Report: a.Op == protocol.Report})
}

// Prepare makes the changes of these keys that are about to be sent. Keys whose write is no longer wanted are left out.
func (t *Table) Prepare(keys []record.Key, m protocol.Moment) []store.Change {
	changes := make([]store.Change, 0, len(keys))
	for _, key := range keys {
		h := t.keys[key]
		if h == nil || !h.write.queued || !h.m.Sent {
			continue
		}
		h.write.queued = false
		t.make(h, m)
		changes = append(changes, h.write.made.change)
	}
	return changes
}

// make makes a write that is about to be sent for the first time. Its revision is of this moment: others read what has changed lately by
// revisions, and a long queue must not make it look old.
func (t *Table) make(h *holding, m protocol.Moment) {
	w := &h.write
	if w.made != nil {
		return
	}
	h.m = h.m.Restamp(max(m.Rev, h.claim.Floor))
	w.action.NewRev = h.m.NewRev
	after := t.lockAfter(h, w.action, m.Clock)
	w.made = &made{after: after, change: store.Change{IfRev: w.action.IfRev, Doc: after.Doc()}}
}

// lockAfter is the lock as the write would leave it.
func (t *Table) lockAfter(h *holding, a protocol.KeyAction, now int64) record.Lock {
	me := t.self.IDs.Session
	was := h.lock
	l := was
	l.Key, l.Rev, l.WriterID = h.key, a.NewRev, t.self.IDs.Next()
	l.Status = h.status
	switch a.Op {
	case protocol.Claim:
		l.Session, l.Next, l.Suspended, l.Token, l.Instance = me, "", false, a.NewRev, t.self.Instance
		l.Status.State, l.Status.Since = "starting", now
		if was.Session != me || was.Token == 0 {
			l.Since = now
			l.Reason, l.Message = t.reason(h)
			if was.Instance != "" {
				l.From = was.Instance
			}
		}
	case protocol.Advance:
		l.Token = a.NewRev
		if h.advance != nil {
			l.Status = *h.advance
		}
	case protocol.Release:
		l.Session, l.Next, l.Suspended, l.Instance, l.Since = "", h.release.Next, h.release.Suspend, "", now
		l.From = t.self.Instance
		if h.release.Reason != "" {
			l.Reason = h.release.Reason
		}
		l.Message = ""
	case protocol.Report, protocol.NoOp:
	}
	return l
}
