package leases

import (
	"cmp"

	"github.com/shardctl/shardctl/pkg/elect/protocol"
	"github.com/shardctl/shardctl/pkg/elect/record"
	"github.com/shardctl/shardctl/pkg/store"
)

// queue asks for the key's write. A repeat is the very same write; a new one is made when it is sent.
func (h *holding) queue(a protocol.KeyAction) Write {
	if w := h.write; w == nil || w.after == nil || w.change.IfRev != a.IfRev || w.change.Doc.Rev != a.NewRev {
		h.write = &write{action: a}
	}
	h.write.queued = true
	return Write{Key: h.key, Report: a.Op == protocol.Report}
}

// change is the write that is about to be sent. One that is sent for the first time gets a revision of this moment.
// Others read what has changed lately by revisions, and a long queue must not make it look old.
func (h *holding) change(self Self, m protocol.Moment) store.Change {
	w := h.write
	w.queued = false
	if w.after == nil {
		h.m = h.m.WithClock(max(m.Rev, h.claim.Floor))
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
	h.said = h.said && h.m.Op != protocol.Claim // of the run before
	acked := Acked{Op: h.m.Op, Was: was, Is: h.lock}
	if acked.Op == protocol.Release {
		acked.Reason = h.release.Reason
	}
	return acked
}

// waiting is the state of work between two ticks.
const waiting = "waiting"

// lockAfter is the lock as the write would leave it.
func (s Self) lockAfter(h *holding, a protocol.KeyAction, now int64) *record.Lock {
	me := s.IDs.Session
	was := h.lock
	l := *was
	l.Key, l.Rev, l.WriterID = h.key, a.NewRev, s.IDs.Next()
	l.Status = *h.status
	switch a.Op {
	case protocol.Claim:
		l.Session, l.Next, l.Suspended, l.Token, l.Instance = me, "", false, a.NewRev, s.Instance
		if l.Status.State != waiting { // a task that waits goes on waiting, and reports nothing that is not new
			l.Status.State, l.Status.Since = "starting", now
		}
		if was.Session != me || was.Token == 0 {
			l.Since = now
			l.Reason, l.Message = s.reason(h)
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
		l.From = s.Instance
		if h.release.Reason != "" {
			l.Reason = h.release.Reason
		}
		l.Message = h.release.Message
	case protocol.Report, protocol.NoOp:
	}
	return &l
}

// reason says why a key is claimed. It is what the claimer gave, what its last owner noted when it released it, or what
// the lock shows.
func (s Self) reason(h *holding) (record.Reason, string) {
	was := h.lock
	switch {
	case was.Session != "" && was.Session != s.IDs.Session:
		if was.Instance == s.Instance {
			return record.ReasonRestarted, "taken again by " + s.Instance + ": " + h.claim.Cause
		}
		return record.ReasonOrphaned, was.Instance + " died: " + h.claim.Cause
	case h.claim.Reason != "":
		return h.claim.Reason, h.claim.Message
	case was.Next == s.IDs.Session && was.Reason != "":
		return was.Reason, was.Message
	case was.Token == 0:
		return record.ReasonCreated, cmp.Or(h.claim.Message, "owned for the first time")
	case was.Reason != "":
		return was.Reason, cmp.Or(h.claim.Message, was.Message)
	}
	return record.ReasonBalance, h.claim.Message
}

// start is the start of a key that has just been claimed.
func (s Self) start(h *holding, token int64) Start {
	start := Start{Key: h.key, Token: token}
	switch owner := h.claim.Lock.Session; {
	case owner != "" && owner != s.IDs.Session:
		start.Died = &h.claim.Died
	case h.claim.Lock.Next == s.IDs.Session:
		start.HandedOver = h.claim.Lock.Since
	}
	return start
}
