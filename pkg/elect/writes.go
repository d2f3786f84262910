package elect

import (
	"context"
	"time"

	"github.com/shardctl/shardctl/pkg/elect/protocol"
	"github.com/shardctl/shardctl/pkg/elect/store"
)

// writeQueue gathers the writes of keys: whatever has come up while the batches before were under way goes out
// together. Changes of ownership go before reports, which are for people.
type writeQueue struct {
	owner, report []*holding
	flying        int              // batches under way
	reporting     bool             // one of them is of reports
	sent          protocol.Instant // when the last batch went out
}

// writers is how many batches are under way at once. A database answers one batch of many sooner than many of one.
const writers = 4

// gather is how long what comes up while two batches are under way waits for more of its kind.
const gather = 5 * time.Millisecond

// writeKey puts a key's write into the queue. A repeat is the very same write; a new one is made when it is sent.
func (e *Elector) writeKey(h *holding, a protocol.KeyAction) {
	if !h.made || h.change.IfRev != a.IfRev || h.change.Doc.Rev != a.NewRev {
		h.made, h.action = false, a
	}
	q := &e.loop.writes
	if a.Op == protocol.Report {
		q.report = append(q.report, h)
	} else {
		q.owner = append(q.owner, h)
	}
}

// make makes the write that is about to be sent for the first time. Its revision is of this moment: others read what has changed
// lately by revisions, and a long queue must not make it look old.
func (e *Elector) make(h *holding) {
	if h.made {
		return
	}
	h.m = h.m.Restamp(max(e.revs.now(), h.floor))
	h.action.NewRev = h.m.NewRev
	h.pending = e.lockAfter(h, h.action)
	h.change = store.Change{IfRev: h.action.IfRev, Doc: h.pending.Doc()}
	h.made = true
}

// lockAfter is the lock as the write would leave it.
func (e *Elector) lockAfter(h *holding, a protocol.KeyAction) Lock {
	s := &e.loop.session
	was, now := h.lock, e.storeNow()
	l := was
	l.Key, l.Rev, l.WriterID = h.key, a.NewRev, s.stamp()
	l.Status = h.status
	switch a.Op {
	case protocol.Claim:
		l.Session, l.Next, l.Suspended, l.Token, l.Instance = s.id, "", false, a.NewRev, s.member.Instance
		l.Status.State, l.Status.Since = "starting", now
		if was.Session != s.id || was.Token == 0 {
			l.Since = now
			l.Reason, l.Message = e.claimReason(h)
			if was.Instance != "" {
				l.From = was.Instance
			}
		}
	case protocol.Advance:
		l.Token = a.NewRev
		l.Status = h.advance.statusOr(h.status)
	case protocol.Release:
		l.Session, l.Next, l.Suspended, l.Instance, l.Since = "", h.next, h.park, "", now
		l.From = s.member.Instance
		if h.reason != "" {
			l.Reason = h.reason
		}
		l.Message = ""
	case protocol.Report, protocol.NoOp:
	}
	return l
}

func (r *advanceRequest) statusOr(status TaskStatus) TaskStatus {
	if r == nil {
		return status
	}
	return r.status
}

// claimReason says why a key is claimed: what the claimer gave, what its last owner noted when it gave it away, or what
// the lock shows.
func (e *Elector) claimReason(h *holding) (Reason, string) {
	was := h.lock
	switch {
	case was.Session != "" && was.Session != e.loop.session.id:
		message := was.Instance + " died: " + e.howDied(was.Session)
		if was.Instance == e.loop.session.member.Instance {
			return ReasonRestarted, message
		}
		return ReasonOrphaned, message
	case h.opts.Reason != "":
		return h.opts.Reason, h.opts.Message
	case was.Next == e.loop.session.id && was.Reason != "":
		return was.Reason, was.Message
	case was.Token == 0:
		return ReasonCreated, h.opts.Message
	case was.Reason != "":
		return was.Reason, h.opts.Message
	}
	return ReasonBalance, h.opts.Message
}

// howDied is what the session's document says of its end, in words.
func (e *Elector) howDied(session string) string {
	if q := e.loop.peers[session]; q != nil && q.doc.Cause != "" {
		return q.doc.Cause
	}
	return "its session was marked dead"
}

// flushWrites sends what is queued, in batches.
func (e *Elector) flushWrites() {
	q := &e.loop.writes
	for q.flying < writers && len(q.owner)+len(q.report) > 0 && e.gatherWait() <= 0 {
		from, report := &q.owner, len(q.owner) == 0
		if report {
			if q.reporting {
				return // a batch of them at a time is enough. They wait for nothing else: a release may wait for one of them
			}
			from = &q.report
		}
		n := min(len(*from), store.MaxBatch)
		batch := (*from)[:n:n]
		*from = (*from)[n:]
		e.sendBatch(batch, report)
	}
}

// gatherWait is how long what is queued waits yet.
func (e *Elector) gatherWait() time.Duration {
	q := &e.loop.writes
	switch {
	case q.flying >= writers || len(q.owner)+len(q.report) == 0 || len(q.owner) == 0 && q.reporting:
		return time.Hour // an answer, or something to write, comes first
	case q.flying < 2:
		return 0
	}
	return gather - e.clock.Now().HolderElapsed(q.sent)
}

func (e *Elector) sendBatch(batch []*holding, report bool) {
	e.loop.writes.sent = e.clock.Now()
	id := e.loop.session.id
	changes := make([]store.Change, 0, len(batch))
	sent := make([]*holding, 0, len(batch))
	for _, h := range batch {
		if h.m.Sent && e.loop.keys[h.key] == h {
			e.make(h)
			changes = append(changes, h.change)
			sent = append(sent, h)
		}
	}
	if len(changes) == 0 {
		return
	}
	e.loop.writes.flying++
	e.loop.writes.reporting = e.loop.writes.reporting || report
	e.beside("apply", func(ctx context.Context) (func(), error) {
		outs, err := e.store.Apply(ctx, changes...)
		return func() {
			e.loop.writes.flying--
			e.loop.writes.reporting = e.loop.writes.reporting && !report
			if err != nil {
				e.log.Error(err, "The store cannot take these writes", "session", id)
				outs = make([]store.Outcome, len(changes))
			}
			for i, h := range sent {
				e.answered(h, changes[i], outs[i])
			}
		}, firstError(outs, err)
	})
}

func firstError(outs []store.Outcome, err error) error {
	for _, o := range outs {
		if err == nil {
			err = o.Err
		}
	}
	return err
}

// answered takes the outcome of one key's write.
func (e *Elector) answered(h *holding, change store.Change, out store.Outcome) {
	if e.loop.keys[h.key] != h || !h.m.Sent || h.change.Doc.WriterID != change.Doc.WriterID {
		return
	}
	status := statusOf([]store.Outcome{out}, nil)
	op := h.m.Op
	if status == protocol.Unknown {
		h.after = e.clock.Now().Add(e.p.Retry)
	}
	switch status {
	case protocol.Applied:
		e.acknowledged(h, op)
	case protocol.Refused:
		e.correct(h.key, out.Doc)
	case protocol.Unknown:
	}
	e.stepKey(h, protocol.KeyEvent{Kind: protocol.KeyAnswer, Status: status})
}

// acknowledged takes note of what a write did, before the key's machine goes on.
func (e *Elector) acknowledged(h *holding, op protocol.KeyOp) {
	was := h.lock
	h.lock = h.pending
	e.mirrorLock(h.lock)
	group := h.key.Group()
	e.loop.bumps.raise(group, h.lock.Rev)
	switch op {
	case protocol.Claim:
		e.log.V(1).Info("Claimed", "key", h.key, "token", h.lock.Token, "reason", h.lock.Reason)
		e.countClaim(group, "won")
		if e.cfg.Hooks.Move != nil && was.Session != h.lock.Session {
			e.cfg.Hooks.Move(group, h.lock.Reason)
		}
		e.noteClaim(was, h.lock)
		e.bump(group)
	case protocol.Release:
		e.log.V(1).Info("Released", "key", h.key, "token", h.lock.Token, "reason", h.lock.Reason)
		if e.cfg.Hooks.Release != nil {
			e.cfg.Hooks.Release(group, h.lock.Reason)
		}
		e.bump(group)
	case protocol.Advance:
		h.status = h.lock.Status // the release keeps it: an outcome, the last tick
		e.loop.bumps.quiet(group)
	case protocol.Report:
		e.loop.bumps.quiet(group)
	case protocol.NoOp:
	}
}

// readKey reads a lock that was refused, linearizably: only that tells what it has become.
func (e *Elector) readKey(h *holding) {
	id, key := e.loop.session.id, h.key
	e.beside("read", func(ctx context.Context) (func(), error) {
		res, err := e.store.Read(ctx, store.KindLock, string(key))
		return func() {
			if e.loop.keys[key] != h {
				return
			}
			ev := protocol.KeyEvent{Kind: protocol.KeyRead, OK: err == nil}
			h.after = e.clock.Now().Add(e.p.Retry)
			if err == nil && len(res.Docs) == 0 {
				e.deleted(h)
			}
			if err == nil && len(res.Docs) > 0 {
				lock := e.mirrorDoc(res.Docs[0])
				ev.Rev, ev.Mine, ev.Ours = lock.Rev, lock.Session == id, h.made && lock.WriterID == h.change.Doc.WriterID
				if ev.Mine {
					if ev.Ours && h.m.Op != protocol.NoOp && ev.Rev == h.m.NewRev {
						e.acknowledged(h, h.m.Op)
					}
					h.lock = lock
				}
			}
			e.stepKey(h, ev)
		}, err
	})
}

// bumper raises the groups' counters: soon after each batch of changes, and at most once in bumpGap.
type bumper struct {
	due    map[string]bool
	high   map[string]int64 // the largest revision written since the last increment, by group
	since  protocol.Instant // when the first of due came up
	last   protocol.Instant
	flying bool
	late   map[string]bool // changes for people only: raised less often
	lateAt protocol.Instant
}

const (
	bumpGap = 250 * time.Millisecond
	// bumpDelay lets a hand-over go first: whoever is to take the keys is told by their locks, and every replica that looks
	// because of a bump takes time from them.
	bumpDelay = 100 * time.Millisecond
	lateGap   = time.Second
	// groupMembers and groupWishes are counters for what belongs to no group. Their names cannot be a group's.
	groupMembers = "~members"
	groupWishes  = "~wishes"
)

// raise notes a revision that the group's next increment is to carry.
func (b *bumper) raise(group string, rev int64) {
	if rev > store.MaxMark {
		return // written out of band: no time, and nothing could be created above it
	}
	if b.high == nil {
		b.high = map[string]int64{}
	}
	b.high[group] = max(b.high[group], rev)
}

func (b *bumper) quiet(group string) {
	if b.late == nil {
		b.late = map[string]bool{}
	}
	b.late[group] = true
}

// bump notes that something of the group changed and others should look.
func (e *Elector) bump(group string) {
	b := &e.loop.bumps
	if b.due == nil {
		b.due, b.since = map[string]bool{}, e.clock.Now()
	}
	b.due[group] = true
}

// bumpAll notes that a session's state changed: that concerns every group.
func (e *Elector) bumpAll() {
	e.bump(groupMembers)
	for group := range e.loop.mirror.groups {
		e.bump(group)
	}
}

func (e *Elector) bumpWait(now protocol.Instant) time.Duration {
	b := &e.loop.bumps
	switch {
	case b.flying:
	case len(b.due) > 0:
		return max(bumpGap-now.HolderElapsed(b.last), bumpDelay-now.HolderElapsed(b.since))
	case len(b.late) > 0:
		return lateGap - now.HolderElapsed(b.lateAt)
	}
	return time.Hour
}

func (e *Elector) flushBumps(now protocol.Instant) {
	b := &e.loop.bumps
	if len(b.late) > 0 && now.Reached(b.lateAt, lateGap) {
		b.lateAt = now
		for group := range b.late {
			e.bump(group)
		}
		b.late = nil
	}
	if b.flying || len(b.due) == 0 || !now.Reached(b.last, bumpGap) || !now.Reached(b.since, bumpDelay) {
		return
	}
	changes := e.dueBumps()
	b.due, b.flying, b.last = nil, true, now
	e.beside("bump", func(ctx context.Context) (func(), error) {
		outs, err := e.store.Apply(ctx, changes...)
		err = firstError(outs, err)
		return func() {
			b.flying = false
			if err != nil { // it may count twice: the counter says only that something happened
				for _, c := range changes {
					e.bump(c.Doc.ID)
					b.raise(c.Doc.ID, c.Doc.Rev)
				}
			}
		}, err
	})
}

// dueBumps are the increments that are due. Each carries the largest revision known of its group.
func (e *Elector) dueBumps() []store.Change {
	b := &e.loop.bumps
	changes := make([]store.Change, 0, len(b.due))
	for group := range b.due {
		if g := e.loop.mirror.groups[group]; g != nil {
			b.raise(group, g.maxRev)
		}
		doc := store.Doc{Kind: store.KindGroup, ID: group, Rev: b.high[group], WriterID: e.loop.session.stamp()}
		changes = append(changes, store.Change{Op: store.Increment, Doc: doc})
		delete(b.high, group)
	}
	return changes
}

// lastBumps tells of what was released at the very end: there is no next turn of the loop that would.
func (e *Elector) lastBumps() {
	if len(e.loop.bumps.due) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(e.loop.ctx, e.p.Op)
	defer cancel()
	if outs, err := e.store.Apply(ctx, e.dueBumps()...); firstError(outs, err) != nil {
		e.log.V(1).Info("Others were not told of the end of the session", "session", e.loop.session.id)
	}
}

func (e *Elector) countClaim(group, result string) {
	if e.cfg.Hooks.Claim != nil {
		e.cfg.Hooks.Claim(group, result)
	}
}
