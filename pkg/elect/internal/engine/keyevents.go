package engine

import (
	"cmp"
	"maps"
	"slices"

	"github.com/shardctl/shardctl/internal/cluster"
	"github.com/shardctl/shardctl/internal/protocol"
	"github.com/shardctl/shardctl/internal/record"
	"github.com/shardctl/shardctl/pkg/store/driver"
)

// All feeds an event of the session to every key: D has come, the lease is valid again, the session is lost.
func (t *Keys) All(kind protocol.KeyEventKind, m protocol.Moment) {
	for _, key := range slices.Sorted(maps.Keys(t.Held)) {
		t.step(t.Held[key], protocol.KeyEvent{Kind: kind}, m)
	}
}

// lineageChanged says that the store follows another lineage. Every lock held here is read and compared.
func (t *Keys) lineageChanged(m protocol.Moment) {
	clear(t.claims.seen.at)
	for _, h := range t.Held {
		h.reclaim = true
	}
	t.All(protocol.KeyLineageChanged, m)
}

// tick repeats what was not answered, notes statuses that have waited long enough, and finds runs that go on
// although their key is another's.
func (t *Keys) tick(m protocol.Moment) {
	if keys := t.timers.stuck(m.Now); len(keys) > 0 {
		t.out.add(stuckRuns{keys})
	}
	for _, r := range t.timers.reports.due(m.Now) {
		r.h.status.due = false
		t.out.changedHeld()
		t.step(r.h, protocol.KeyEvent{Kind: protocol.KeyReport}, m)
	}
	var due []*heldKey
	for h := range t.timers.pending {
		if h.m.Phase == protocol.Idle && h.m.Op == protocol.NoOp && !m.Valid && !h.m.Verifying {
			continue // what waits for a valid lease may be all that was held
		}
		if m.Now.HolderElapsed(h.after) >= 0 {
			due = append(due, h)
		}
	}
	slices.SortFunc(due, func(a, b *heldKey) int { return cmp.Compare(a.key, b.key) })
	for _, h := range due {
		t.step(h, protocol.KeyEvent{Kind: protocol.KeyTick}, m)
	}
}

// Release asks for a key's release. A key that is being released already keeps its first reservation.
func (t *Keys) Release(r cluster.HandOver, m protocol.Moment) {
	h := t.Held[r.Key]
	if h == nil || h.m.GiveUp {
		return
	}
	r.Suspend = r.Suspend || h.asked().Suspend
	h.release = &r
	t.step(h, protocol.KeyEvent{Kind: protocol.KeyGiveUp}, m)
}

// forgive forgets what the store has refused: it is tried again before this process stops.
func (t *Keys) forgive() {
	for _, h := range t.Held {
		if h.write != nil {
			h.write.trouble = nil
		}
		if h.claim != &claimOver {
			h.claim.trouble = nil
		}
	}
}

// releaseAll asks for the release of every key, since this process stops.
func (t *Keys) releaseAll(reason record.Reason, m protocol.Moment) {
	for _, key := range slices.Sorted(maps.Keys(t.Held)) {
		t.Release(cluster.HandOver{Key: key, Reason: reason, Message: t.claims.self.Instance + " is stopping"}, m)
	}
}

// Returned says that a key's run has returned and nothing of it is left. The release carries status. Suspend leaves
// the lock out of the sweeps.
func (t *Keys) Returned(key record.Key, status record.TaskStatus, suspend bool, m protocol.Moment) {
	h := t.Held[key]
	if h == nil {
		return
	}
	if h.m.Phase == protocol.Running || h.m.Phase == protocol.Stopping {
		t.running--
	}
	h.status.report(status)
	if suspend {
		asked := h.asked()
		asked.Suspend = true
		h.release = &asked
	}
	if h.m.Expired && !h.adopt {
		t.Release(cluster.HandOver{Key: key}, m)
	}
	t.step(h, protocol.KeyEvent{Kind: protocol.KeyReturned}, m)
}

// Advance asks for a new token under a new status. The answer is an Advanced. It reports false when the key does
// not run, was asked to stop, or another advance of it is under way.
func (t *Keys) Advance(key record.Key, status record.TaskStatus, m protocol.Moment) bool {
	h := t.Held[key]
	if h == nil || h.advance != nil || h.m.Phase != protocol.Running {
		return false
	}
	h.advance, h.status.newer = &status, false
	t.step(h, protocol.KeyEvent{Kind: protocol.KeyAdvance}, m)
	return true
}

// Report notes a status in the lock: soon, and at most the newest one.
func (t *Keys) Report(key record.Key, status record.TaskStatus, now protocol.Instant) {
	h := t.Held[key]
	if h == nil {
		return
	}
	h.status.report(status)
	if !h.status.due {
		h.status.due = true
		t.timers.reports.add(h, now)
	}
}

// heard takes why the change that prepare made under id was not answered; nil: it was.
func (t *Keys) heard(key record.Key, id driver.WriterID, err error) {
	if h := t.Held[key]; h != nil && h.sentAs(id) {
		h.write.trouble = err
		if h.m.Op == protocol.Claim {
			t.refuseClaim(h, err)
		}
	}
}

// refuseClaim says that the store refuses a claim for good, if it does.
func (t *Keys) refuseClaim(h *heldKey, err error) {
	if driver.Lasting(err) {
		t.out.add(claimRefused{h.key, err, h.work})
	}
}

// answered takes the outcome of a change that prepare made under id. lock is what a refusal found; nil when the
// lock is absent.
func (t *Keys) answered(
	key record.Key, id driver.WriterID, status protocol.Status, lock *record.Lock, m protocol.Moment,
) {
	h := t.Held[key]
	if h == nil || !h.m.Sent || !h.sentAs(id) {
		return
	}
	switch status {
	case protocol.Applied:
		t.out.add(h.acknowledged())
	case protocol.Refused:
		h.reclaim = h.met(lock) || lock != nil && h.sentAs(lock.WriterID)
		t.out.add(corrected{h.key, lock})
	case protocol.Unknown:
		h.after = m.Now.Add(t.p.Retry)
	case protocol.Unwritable:
		h.leaveOutTexts()
	}
	t.step(h, protocol.KeyEvent{Kind: protocol.KeyAnswer, Status: status}, m)
}

// found takes the answer to a Read.
func (t *Keys) found(f keyFound, m protocol.Moment) {
	h := t.Held[f.Key]
	if h == nil || !h.m.Reading {
		return
	}
	lock := f.Lock
	h.after = m.Now.Add(t.p.Retry)
	if h.m.Seeking() {
		h.claim.trouble = f.Err
		t.refuseClaim(h, f.Err)
	}
	ev := protocol.KeyEvent{Kind: protocol.KeyRead, OK: f.Err == nil}
	switch {
	case f.Err != nil:
	case h.m.Seeking() && lock == nil:
		h.claim.Floor = max(h.claim.Floor, f.Mark+1)
	case h.m.Seeking():
		ev.Rev = lock.Rev
		t.out.add(corrected{f.Key, lock})
	case lock == nil:
		h.deleted = h.m.Token > 0
		t.out.add(corrected{Key: f.Key})
	default:
		ev.Rev, ev.Mine = lock.Rev, lock.Session == t.claims.self.IDs.Session
		ev.Ours = h.sentAs(lock.WriterID)
		ev.Exact = lock.WriterID == h.lock.WriterID
		if ev.Mine {
			if ev.Ours && h.m.Op != protocol.NoOp && ev.Rev == h.m.NewRev {
				t.out.add(h.acknowledged())
			}
			h.lock = lock
		}
	}
	t.step(h, ev, m)
}

// Expire says that the key's run was stopped at D.
func (t *Keys) Expire(key record.Key, m protocol.Moment) {
	if h := t.Held[key]; h != nil {
		t.step(h, protocol.KeyEvent{Kind: protocol.KeyDeadline}, m)
	}
}

// lose lets go of a key whose lock was found to name another, or to be absent.
func (t *Keys) lose(key record.Key, absent bool, m protocol.Moment) {
	h := t.Held[key]
	if h == nil {
		return
	}
	h.deleted = absent && h.m.Token > 0
	t.step(h, protocol.KeyEvent{Kind: protocol.KeyLose}, m)
}

// claim begins to take a key.
func (t *Keys) claim(c Claim, m protocol.Moment) ClaimVerdict {
	if verdict := t.claims.begin(c, m); verdict != ClaimBegun {
		return verdict
	}
	key, status := c.Lock.Key, c.Lock.Status
	h := &heldKey{
		key: key, work: c.Work, lock: &c.Lock, claim: &c, status: heldStatus{is: &status}, adopt: c.Adopt,
	}
	t.Held[key] = h
	t.owned.claimed()
	t.step(h, protocol.KeyEvent{Kind: protocol.KeyClaim, Rev: c.Lock.Rev}, m)
	return ClaimBegun
}
