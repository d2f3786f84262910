package engine

import (
	"iter"
	"slices"

	"github.com/shardctl/shardctl/internal/cluster"
	"github.com/shardctl/shardctl/internal/protocol"
	"github.com/shardctl/shardctl/internal/record"
	"github.com/shardctl/shardctl/pkg/store/driver"
)

// Keys holds the keys of one process. It is not safe for concurrent use.
type Keys struct {
	Held    heldKeys // those that are not free
	running int      // those whose run has started and not returned
	owned   ownedCount

	p      protocol.Params
	claims claims
	timers keyTimers
	out    *Effects
}

// newKeys is an empty table.
func newKeys(out *Effects, p protocol.Params) *Keys {
	held := heldKeys{}
	return &Keys{out: out, p: p, Held: held, claims: newClaims(p, held.Holds), timers: newKeyTimers(p)}
}

// begin makes the table hold keys on behalf of a new session. No key may be held.
func (t *Keys) begin(self holder) { t.claims.self = self }

// setLimits sets what may be claimed from now on. Keys above the new limits stay.
func (t *Keys) setLimits(l Limits) { t.claims.quota.limits = l }

// prepare makes the changes of these keys that are about to be sent. Keys whose write is no longer wanted are left
// out.
func (t *Keys) prepare(keys []record.Key, m protocol.Moment) []driver.Change {
	changes := make([]driver.Change, 0, len(keys))
	for _, key := range keys {
		if h := t.Held[key]; h != nil && h.write != nil && h.write.queued && h.m.Sent {
			change := h.change(t.claims.self, m)
			if h.m.Op == protocol.Claim {
				change.Claim = t.p.T
			}
			changes = append(changes, change)
		}
	}
	return changes
}

// step feeds one key's machine and notes what it wants done.
func (t *Keys) step(h *heldKey, ev protocol.KeyEvent, m protocol.Moment) {
	ev.Valid = m.Valid
	ev.Clock = max(m.Rev, h.claim.Floor)
	before := h.m
	var acts []protocol.KeyAction
	h.m, acts = h.m.Step(ev)
	if before.Phase != h.m.Phase || before.GiveUp != h.m.GiveUp {
		t.out.changedHeld()
	}
	for _, a := range acts {
		t.act(h, a, before, m)
	}
	t.owned.changed(h)
	t.timers.changed(h)
}

func (t *Keys) act(h *heldKey, a protocol.KeyAction, before protocol.Key, m protocol.Moment) {
	switch a.Kind {
	case protocol.WriteKey:
		t.out.add(h.queue(a))
	case protocol.ReadKey:
		t.out.add(keyRead{Key: h.key, Create: h.m.Seeking()})
	case protocol.StartKey:
		t.running++
		t.out.add(t.claims.self.start(h, a.Token))
		h.claim = &claimOver
	case protocol.StopKey:
		cause := CauseReleased
		if h.m.Expired {
			cause = CauseExpired
		}
		t.stop(h, before.Token, cause)
	case protocol.KillKey:
		t.timers.lost.add(h, m.Now)
		t.stop(h, before.Token, CauseLost)
	case protocol.Advanced:
		t.advanced(h, a.Token, m.Valid)
	case protocol.KeyOff:
		t.off(h, a.Refused, before)
	}
}

// off forgets a key that is free here.
func (t *Keys) off(h *heldKey, refused bool, before protocol.Key) {
	delete(t.Held, h.key)
	t.claims.quota.freed(h.key.Group())
	t.owned.freed()
	t.out.changedHeld()
	t.refuse(h, CauseLost)
	t.out.add(h.freed(refused, before))
}

// heldKeys are the keys that are not free here. Its methods are questions: they change nothing.
type heldKeys map[record.Key]*heldKey

// len is the number of keys that are not free.
func (k heldKeys) len() int { return len(k) }

// Holds says whether the key is not free here.
func (k heldKeys) Holds(key record.Key) bool { return k[key] != nil }

// Work is what the key was claimed for; nil: it is free here.
func (k heldKeys) Work(key record.Key) Work {
	if h := k[key]; h != nil {
		return h.work
	}
	return nil
}

// WriteTrouble is the last error of the store that keeps a claim or a write of the key waiting; nil: none does.
func (k heldKeys) WriteTrouble(key record.Key) error {
	if h := k[key]; h != nil {
		return h.trouble()
	}
	return nil
}

// Status is what the lock says of the key's work, or will say once it has been written.
func (k heldKeys) Status(key record.Key) record.TaskStatus {
	if h := k[key]; h != nil {
		return *h.status.is
	}
	return record.TaskStatus{}
}

// Running says whether the key's run goes on and was not asked to stop.
func (k heldKeys) Running(key record.Key) bool {
	h := k[key]
	return h != nil && h.m.Phase == protocol.Running
}

// Keeps says whether the key's run goes on under a lease that has neither run out nor been lost.
func (k heldKeys) Keeps(key record.Key) bool {
	h := k[key]
	return h != nil && !h.m.Lost && !h.m.Expired
}

// Started lists the keys whose run has started and not returned, in order.
func (k heldKeys) Started() []record.Key {
	var keys []record.Key
	for key, h := range k {
		if h.m.Phase == protocol.Running || h.m.Phase == protocol.Stopping {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}

// All are the keys that are not free, in no order. Look is left out.
func (k heldKeys) All() iter.Seq2[record.Key, cluster.Held] {
	return func(yield func(record.Key, cluster.Held) bool) {
		for key, h := range k {
			held := cluster.Held{
				Phase: h.m.Phase, Releasing: h.m.GiveUp, Next: h.asked().Next, Status: h.newest(),
			}
			if !yield(key, held) {
				return
			}
		}
	}
}

// settled says whether the key runs, also one that is being stopped, and has no write under way. Then what a read finds
// can be compared with it.
func (k heldKeys) settled(key record.Key) bool {
	h := k[key]
	if h == nil || h.m.Op != protocol.NoOp {
		return false
	}
	return h.m.Phase == protocol.Running || h.m.Phase == protocol.Stopping && !h.m.Lost
}

// allSettled lists the keys that are settled, in no order.
func (k heldKeys) allSettled() []record.Key {
	var keys []record.Key
	for key := range k {
		if k.settled(key) {
			keys = append(keys, key)
		}
	}
	return keys
}

// rev is the revision of the key's lock as last acknowledged; 0 for a key that is free here.
func (k heldKeys) rev(key record.Key) int64 {
	if h := k[key]; h != nil {
		return h.m.Rev
	}
	return 0
}

// verifying says whether a key is not compared with the store's lineage yet, or runs on although its lock was lost.
func (k heldKeys) verifying() bool {
	for _, h := range k {
		if h.m.Verifying || h.m.Lost {
			return true
		}
	}
	return false
}

// Advancing says whether an advance of the key is under way.
func (k heldKeys) Advancing(key record.Key) bool {
	h := k[key]
	return h != nil && h.advance != nil
}

// stop adds the stop of a key's run, and the end of an advance of it.
func (t *Keys) stop(h *heldKey, token int64, cause Cause) {
	t.refuse(h, cause)
	t.out.add(Stop{Key: h.key, Token: token, Cause: cause, work: h.work})
}

// advanced adds the answer to an advance. A lease that is not valid says that D has come: nothing may be started.
func (t *Keys) advanced(h *heldKey, token int64, valid bool) {
	switch {
	case !valid:
		t.refuse(h, CauseExpired)
		return
	case token == 0:
		t.refuse(h, CauseUnwritable)
		return
	}
	t.out.add(Advanced{Key: h.key, Token: token, work: h.work})
	h.advance = nil
}

// refuse ends the advance under way, if there is one.
func (t *Keys) refuse(h *heldKey, cause Cause) {
	if h.advance != nil {
		t.out.add(Advanced{Key: h.key, Cause: cause, work: h.work})
		h.advance = nil
	}
}
