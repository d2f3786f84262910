package leases

import (
	"github.com/shardctl/shardctl/pkg/elect/protocol"
	"github.com/shardctl/shardctl/pkg/elect/record"
	"github.com/shardctl/shardctl/pkg/elect/store"
)

// Self is the session on whose behalf keys are held.
type Self struct {
	IDs      *record.WriterIDs
	Instance string
}

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
		l.Status.State, l.Status.Since = "starting", now
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
		l.Message = ""
	case protocol.Report, protocol.NoOp:
	}
	return &l
}

// reason says why a key is claimed: what the claimer gave, what its last owner noted when it gave it away, or what the lock shows.
func (s Self) reason(h *holding) (record.Reason, string) {
	was := h.lock
	switch {
	case was.Session != "" && was.Session != s.IDs.Session:
		message := was.Instance + " died: " + h.claim.Cause
		if was.Instance == s.Instance {
			return record.ReasonRestarted, message
		}
		return record.ReasonOrphaned, message
	case h.claim.Reason != "":
		return h.claim.Reason, h.claim.Message
	case was.Next == s.IDs.Session && was.Reason != "":
		return was.Reason, was.Message
	case was.Token == 0:
		return record.ReasonCreated, h.claim.Message
	case was.Reason != "":
		return was.Reason, h.claim.Message
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

// unowned is the lock without an owner, written over revision ifRev.
func (s Self) unowned(lock record.Lock, ifRev, floor int64, m protocol.Moment) store.Change {
	lock.Session, lock.Next, lock.Instance, lock.Since = "", "", "", m.Clock
	lock.Rev, lock.WriterID = protocol.NextRev(ifRev, max(m.Rev, floor)), s.IDs.Next()
	return store.Change{IfRev: ifRev, Doc: lock.Doc()}
}
