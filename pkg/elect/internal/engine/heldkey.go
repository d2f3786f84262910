package engine

import (
	"cmp"
	"slices"
	"time"

	"github.com/shardctl/shardctl/internal/cluster"
	"github.com/shardctl/shardctl/internal/protocol"
	"github.com/shardctl/shardctl/internal/record"
	"github.com/shardctl/shardctl/pkg/store/driver"
)

// heldKey is one key. There may be very many that rest, so what only a claim or a write needs goes with it. Locks and
// statuses are shared, and are not changed.
type heldKey struct {
	key    record.Key
	work   Work
	m      protocol.Key
	lock   *record.Lock // as last acknowledged, or as read before the claim
	status heldStatus

	claim   *Claim             // until the run starts; then claimOver
	write   *pendingWrite      // under way; nil: none
	release *cluster.HandOver  // as asked for; nil: not yet
	advance *record.TaskStatus // of the advance under way
	adopt   bool               // see Claim

	after      protocol.Instant // no repeat before, after a failure
	named      uint32           // see ownedCount
	deleted    bool             // the lock's document was deleted
	reclaim    bool             // see Freed
	released   bool             // the release is acknowledged
	unwritable bool             // the store could not take the last write
}

// heldStatus is what the lock says of the key's work, or will say.
type heldStatus struct {
	is       *record.TaskStatus
	newer    bool // than that of the advance under way
	due      bool // to be noted
	reported bool // by the run: else it is what was found
}

// report takes what the run says.
func (s *heldStatus) report(status record.TaskStatus) {
	s.is, s.newer, s.reported = &status, true, true
}

// claimOver is the claim of every key whose run has started: nothing that was known of its lock counts any more.
var claimOver Claim

// pendingWrite is a write under way.
type pendingWrite struct {
	queued bool
	action protocol.KeyAction
	after  *record.Lock // what the write makes of the lock; nil before it is sent for the first time
	change driver.Change
	// trouble is why it was not answered; nil: it is under way for the first time, or the key is tried again by Close.
	trouble error
}

// trouble is the last error of the store that keeps a claim or a write of the key waiting; nil: none does.
func (h *heldKey) trouble() error {
	if h.write != nil && h.write.trouble != nil {
		return h.write.trouble
	}
	return h.claim.trouble
}

// sentAs says whether the key has a write under way that was sent under this writer ID.
func (h *heldKey) sentAs(id driver.WriterID) bool {
	return h.write != nil && h.write.after != nil && h.write.change.Doc.WriterID == id
}

// newest is what the run said last of itself, written or not; nil before it has said anything. It is not changed.
func (h *heldKey) newest() *record.TaskStatus {
	if !h.status.reported {
		return nil
	}
	return h.status.is
}

// leaveOutTexts has the next write say no more than it must, since no store could take the last one.
func (h *heldKey) leaveOutTexts() {
	h.unwritable = true
	lock, status := *h.lock, *h.status.is
	lock.Instance, lock.From, lock.Reason, lock.Message = "", "", "", ""
	status.LastError = ""
	if is := status.Outcome; is != nil {
		outcome := *is
		outcome.Error, status.Outcome = "", &outcome
	}
	h.lock, h.status.is = &lock, &status
	if h.release != nil {
		h.release = &cluster.HandOver{Next: h.release.Next, Suspend: h.release.Suspend}
	}
}

// asked is the release as it was asked for.
func (h *heldKey) asked() cluster.HandOver {
	if h.release == nil {
		return cluster.HandOver{}
	}
	return *h.release
}

// met says whether the condition of the write under way holds on the lock as found; nil is absent.
func (h *heldKey) met(lock *record.Lock) bool {
	if lock == nil {
		return h.m.IfRev == 0
	}
	return lock.Rev == h.m.IfRev
}

// waits says whether a key waits for time to pass: to repeat what was not answered, or for a valid lease.
func (h *heldKey) waits() bool {
	return h.m.Verifying || h.m.Op != protocol.NoOp && !h.m.Sent || h.m.Phase == protocol.Idle ||
		h.m.Seeking() && !h.m.Reading
}

// freed is the end of the key here. before is its machine before that.
func (h *heldKey) freed(refused bool, before protocol.Key) Freed {
	f := Freed{
		Key: h.key, Refused: refused, Reclaim: refused && h.reclaim, Unwritable: h.unwritable,
		ReleaseUnconfirmed: before.Token > 0 && !h.released, work: h.work,
	}
	if h.deleted {
		f.Deleted = h.lock
	}
	return f
}

// queue asks for the key's write. A repeat is the very same write; a new one is made when it is sent.
func (h *heldKey) queue(a protocol.KeyAction) keyWrite {
	if w := h.write; w == nil || w.after == nil || w.change.IfRev != a.IfRev || w.change.Doc.Rev != a.NewRev {
		h.write = &pendingWrite{action: a}
	}
	h.write.queued = true
	return keyWrite{Key: h.key, Report: a.Op == protocol.Report}
}

// change is the write that is about to be sent. One that is sent for the first time gets a revision of this moment.
// Others read what has changed lately by revisions, and a long queue must not make it look old.
func (h *heldKey) change(self holder, m protocol.Moment) driver.Change {
	w := h.write
	w.queued = false
	if w.after == nil {
		h.m = h.m.WithClock(max(m.Rev, h.claim.Floor))
		w.action.NewRev = h.m.NewRev
		w.after = self.lockAfter(h, w.action, m.Clock)
		w.change = driver.Change{IfRev: w.action.IfRev, Doc: w.after.Doc()}
	}
	return w.change
}

// acknowledged takes note of what the write did, before the key's machine goes on.
func (h *heldKey) acknowledged() Acked {
	was := h.lock
	h.lock, h.write = h.write.after, nil
	if h.m.Op == protocol.Advance && !h.status.newer || *h.status.is == h.lock.Status {
		h.status.is = &h.lock.Status // the release keeps it: an outcome, the last tick
	}
	h.released = h.m.Op == protocol.Release
	h.status.reported = h.status.reported && h.m.Op != protocol.Claim // of the run before
	acked := Acked{Op: h.m.Op, Was: was, Is: h.lock}
	if acked.Op == protocol.Release {
		acked.Reason = h.asked().Reason
	}
	return acked
}

// stateWaiting is the state of work between two ticks.
const stateWaiting = "waiting"

// lockAfter is the lock as the write would leave it.
func (s holder) lockAfter(h *heldKey, a protocol.KeyAction, now int64) *record.Lock {
	me := s.IDs.Session
	was := h.lock
	l := *was
	l.Key, l.Rev, l.WriterID = h.key, a.NewRev, s.IDs.Next()
	l.Status = *h.status.is
	switch a.Op {
	case protocol.Claim:
		l.Session, l.Next, l.Suspended, l.Token, l.Instance = me, "", false, a.NewRev, s.Instance
		if l.Status.State != stateWaiting { // a task that waits goes on waiting, and reports nothing that is not new
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
		asked := h.asked()
		l.Session, l.Next, l.Suspended, l.Instance, l.Since = "", asked.Next, asked.Suspend, "", now
		l.From, l.Reason, l.Message = s.Instance, cmp.Or(asked.Reason, l.Reason), asked.Message
		l.Status.Undeclared = l.Status.Undeclared || asked.Reason == record.ReasonRemoved
	case protocol.Report, protocol.NoOp:
	}
	return &l
}

// reason says why a key is claimed. It is what the claimer gave, what its last owner noted when it released it, or what
// the lock shows.
func (s holder) reason(h *heldKey) (record.Reason, string) {
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
func (s holder) start(h *heldKey, token int64) Start {
	start := Start{Key: h.key, Token: token, Session: s.IDs.Session, work: h.work}
	switch owner := h.claim.Lock.Session; {
	case owner != "" && owner != s.IDs.Session:
		start.Died = &h.claim.Died
	case h.claim.Lock.Next == s.IDs.Session:
		start.HandedOver = h.claim.Lock.Since
	}
	return start
}

// ownedCount bounds how many locks name this session while the store counts them. It looks at keys as they change,
// never at all of them.
type ownedCount struct {
	held  int    // keys that are not free
	named uint32 // keys whose locks are sure to name this session, unless somebody edited them manually
	round uint32 // counts the counts
	least int    // locks that were sure to name this session ever since the last count began
	most  int    // keys that were not free at any time since then
}

// begin begins a count of the locks that name this session: the answer is compared with Counted.
func (c *ownedCount) begin() {
	c.round++
	c.least, c.most = int(c.named), c.held
}

// counted is how many locks may have named this session at some moment since Begin, unless somebody edited one
// manually. The least are those that were sure to do so all the time. The most are all whose keys were not free at any
// time.
func (c *ownedCount) counted() (least, most int) { return c.least, c.most }

// claimed takes note of a key that was free.
func (c *ownedCount) claimed() {
	c.held++
	c.most++
}

// freed takes note of a key that is free.
func (c *ownedCount) freed() { c.held-- }

// changed takes note of what an event made of a key. A key remembers in which round its lock became sure to
// name this session, plus one.
func (c *ownedCount) changed(h *heldKey) {
	switch sure := h.surelyOwned(); {
	case sure && h.named == 0:
		c.named++
		h.named = c.round + 1
	case !sure && h.named > 0:
		c.named--
		if h.named <= c.round {
			c.least--
		}
		h.named = 0
	}
}

// surelyOwned says whether the lock is sure to name this session, unless somebody edited it manually.
func (h *heldKey) surelyOwned() bool {
	switch h.m.Phase {
	case protocol.Claiming, protocol.Idle:
		return h.m.Token > 0
	case protocol.Running, protocol.Stopping:
		return !h.m.Lost
	case protocol.Free, protocol.Releasing:
	}
	return false
}

// keyTimers is what a tick looks at, so that keys that rest cost nothing.
type keyTimers struct {
	pending map[*heldKey]struct{} // see heldKey.waits
	reports delayQueue            // statuses to be noted
	lost    delayQueue            // runs that were informed that their key is another's
}

// reportDelay is how long a status waits for a newer one. A run that starts and stops at once is noted once, and
// the writes of a hand-over are not held up by statuses.
const reportDelay = 200 * time.Millisecond

func newKeyTimers(p protocol.Params) keyTimers {
	return keyTimers{
		pending: map[*heldKey]struct{}{}, reports: delayQueue{by: reportDelay}, lost: delayQueue{by: p.T / 4},
	}
}

// changed takes note of what an event made of a key.
func (a *keyTimers) changed(h *heldKey) {
	if h.waits() {
		a.pending[h] = struct{}{}
	} else {
		delete(a.pending, h)
	}
}

// stuck are the runs that go on although their key is another's, each once. A key that was taken away alone, by an
// edited lock, meets no deadline of the session. T/4 is enough for any command to be killed.
func (a *keyTimers) stuck(now protocol.Instant) []record.Key {
	var keys []record.Key
	for _, l := range a.lost.due(now) {
		if l.h.m.Lost {
			keys = append(keys, l.h.key)
		}
	}
	slices.Sort(keys)
	return keys
}

// delayQueue are keys that something is to be done about, each so long after it came in: what came first is due first.
type delayQueue struct {
	by    time.Duration
	queue []delayedKey
}

// delayedKey is a key, and when it came in.
type delayedKey struct {
	h  *heldKey
	at protocol.Instant
}

func (d *delayQueue) add(h *heldKey, now protocol.Instant) {
	d.queue = append(d.queue, delayedKey{h, now})
}

// due takes out what has waited long enough.
func (d *delayQueue) due(now protocol.Instant) []delayedKey {
	n := 0
	for n < len(d.queue) && now.Reached(d.queue[n].at, d.by) {
		n++
	}
	due := d.queue[:n]
	if d.queue = d.queue[n:]; len(d.queue) == 0 {
		d.queue = nil // a burst must not hold its memory for ever
	}
	return due
}

// wait is how long the first of them still waits; ok is false when there is none.
func (d *delayQueue) wait(now protocol.Instant) (left time.Duration, ok bool) {
	if len(d.queue) == 0 {
		return 0, false
	}
	return d.by - now.HolderElapsed(d.queue[0].at), true
}
