package engine

import (
	"time"

	"github.com/shardctl/shardctl/internal/protocol"
	"github.com/shardctl/shardctl/internal/record"
	"github.com/shardctl/shardctl/pkg/store/driver"
)

// Self is this process's session, and after its end the next one. It is not safe for concurrent use.
type Self struct {
	Member memberDoc // what the instance says of itself, beside the session

	p        protocol.Params
	newID    func() string
	m        protocol.Session
	ids      *record.WriterIDs
	write    driver.Change         // the write under way: a repeat is the very same
	written  protocol.SessionWrite // what write was made for
	drain    drainState
	wasValid bool
	trouble  error // why the last heartbeat was not answered, or the document not read since; nil: it was
	out      *Effects
}

// drainState is what was asked of the session.
type drainState struct {
	asked   bool             // say draining, and take no more keys
	askedAt protocol.Instant // when that was
	known   bool             // those who may take the keys are known as of then
	closing bool             // end once nothing runs
	closeAt protocol.Instant // when that was asked for
}

// closingFor says whether Close was called at least d ago.
func (s *drainState) closingFor(d time.Duration, now protocol.Instant) bool {
	return s.closing && now.Reached(s.closeAt, d)
}

// awaitsTakers says since when those who may take the keys must be known; ok is false when they are, or need not be.
func (s *drainState) awaitsTakers() (since protocol.Instant, ok bool) {
	return s.askedAt, s.asked && !s.known
}

// newSelf is a process that is about to open its first session. newID gives names of sessions, each never used
// before.
func newSelf(out *Effects, p protocol.Params, m record.Member, newID func() string) *Self {
	o := &Self{out: out, p: p, newID: newID, Member: memberDoc{retry: p.Retry, record: m.Clone()}}
	o.begin()
	return o
}

// begin begins a session with a fresh name. Everything of the one before is gone.
func (o *Self) begin() {
	id := o.newID()
	o.ids = &record.WriterIDs{Session: id}
	o.m = protocol.Session{Drain: o.drain.asked} // a drain outlives the session it was asked in
	o.write, o.written, o.wasValid = driver.Change{}, protocol.SessionWrite{}, false
	o.Member.begin(o.ids, o.p.T)
	o.out.add(sessionBegun{id})
	o.out.add(o.deadlines())
}

// deadlines is what the deadlines of all runs count from.
func (o *Self) deadlines() LeaseChanged {
	return LeaseChanged{o.ids.Session, o.m.Lease()}
}

// ID is the session's name.
func (o *Self) ID() string { return o.ids.Session }

// IDs gives the session's writer IDs.
func (o *Self) IDs() *record.WriterIDs { return o.ids }

// Machine is the session's state.
func (o *Self) Machine() protocol.Session { return o.m }

// announced says whether the lease is valid and others can read what the instance says of itself.
func (o *Self) announced() bool { return o.wasValid && o.Member.readable() }

// Valid says whether the lease is valid.
func (o *Self) Valid(now protocol.Instant) bool { return o.m.Valid(o.p, now) }

// Closing says whether everything is being released.
func (o *Self) Closing() bool { return o.drain.closing }

// Leaving says whether no more keys are taken.
func (o *Self) Leaving() bool { return o.drain.closing || o.drain.asked }

// Draining says whether keys may be given away for a drain. Others must know of it first. To one that sees a key leave
// and does not know why, the giver looks as if it had free capacity. And the giver must know of the others: a session
// that began a moment ago is to get the keys. A store that does not answer in time is not waited for.
func (o *Self) Draining(now protocol.Instant) bool {
	return o.drain.closing ||
		o.drain.asked && (o.m.AnnouncedDraining && o.drain.known || now.Reached(o.drain.askedAt, o.p.Retry))
}

// Drain says draining in the session's document. Keys that are held stay.
func (o *Self) Drain(m protocol.Moment) {
	if !o.drain.asked {
		o.drain.asked, o.drain.askedAt = true, m.Now
	}
	o.step(protocol.SessionEvent{Kind: protocol.SessionSayDraining}, m)
}

// Close ends the session once nothing runs. It reports false when it was called before.
func (o *Self) Close(m protocol.Moment) bool {
	if o.drain.closing {
		return false
	}
	o.drain.closing, o.drain.closeAt = true, m.Now
	o.trouble = nil // it is tried again
	o.out.changedSessions()
	o.step(protocol.SessionEvent{Kind: protocol.SessionDrain}, m)
	return true
}

// Tick lets time pass.
func (o *Self) Tick(m protocol.Moment) {
	o.step(protocol.SessionEvent{Kind: protocol.SessionTick}, m)
}

// lineageChanged says that the store follows another lineage: no heartbeat counts until verified is called.
func (o *Self) lineageChanged(m protocol.Moment) {
	o.step(protocol.SessionEvent{Kind: protocol.SessionLineageChanged}, m)
}

// verified says that every key held was compared with the new lineage, and what was lost has ended. The session
// compares its own document next.
func (o *Self) verified(m protocol.Moment) {
	o.step(protocol.SessionEvent{Kind: protocol.SessionVerified}, m)
}

// Idle says how many runs have not returned and how many keys are not free: with none the session may end, if it is
// to.
func (o *Self) Idle(running, held int, m protocol.Moment) {
	if o.m.TasksOff(running, held) {
		o.step(protocol.SessionEvent{Kind: protocol.SessionTasksOff}, m)
	}
}

// announce brings the member's document up to date, when it has changed since.
func (o *Self) announce(m protocol.Moment) {
	if o.m.Phase != protocol.Open {
		return
	}
	if change := o.Member.due(m); change != nil {
		o.out.add(writeMember{change})
	}
}

// Wait is how long the loop may sleep before the next heartbeat is due.
func (o *Self) Wait(now protocol.Instant) (time.Duration, bool) {
	if o.m.Phase != protocol.Open || o.m.Write.Sent || o.m.Reading || now.HolderElapsed(o.m.RetryAt) < 0 {
		return 0, false
	}
	return o.p.Heartbeat - now.HolderElapsed(o.m.Acked), true
}

// heard takes why a request for the session's document was not answered; nil: it was. Those who wait for the session
// look when it will last.
func (o *Self) heard(session string, err error) {
	if session != o.ids.Session {
		return
	}
	if o.trouble = err; driver.Lasting(err) {
		o.out.changedSessions()
	}
}

// answered takes the outcome of a Write of this session.
func (o *Self) answered(session string, status protocol.Status, m protocol.Moment) {
	if session == o.ids.Session {
		o.step(protocol.SessionEvent{Kind: protocol.SessionAnswer, Status: status}, m)
	}
}

// found takes the answer to a read of the session's document: s is nil when it is absent, ok is false when the read
// failed.
func (o *Self) found(session string, s *record.Session, ok bool, m protocol.Moment) {
	if session != o.ids.Session {
		return
	}
	ev := protocol.SessionEvent{Kind: protocol.SessionRead, OK: ok}
	if s != nil {
		ev.Rev, ev.Heartbeat, ev.State = s.Rev, s.Heartbeat, record.StateOf(string(s.State))
		ev.Mine = s.WriterID.Session == session
	}
	o.step(ev, m)
}

// step feeds the session's machine and notes what it wants done.
func (o *Self) step(ev protocol.SessionEvent, m protocol.Moment) {
	ev.Clock = m.Rev
	was := o.m
	var acts []protocol.SessionAction
	o.m, acts = o.m.Step(o.p, ev, m.Now)
	if was.Phase != o.m.Phase || was.Acked != o.m.Acked {
		o.out.add(o.deadlines()) // before anything is started or stopped because of it
	}
	for _, a := range acts {
		o.act(a, m)
	}
	if o.m.Lineage.Forgot && !was.Lineage.Forgot {
		o.out.add(storeForgot{o.ids.Session})
	}
	valid := o.m.Valid(o.p, m.Now)
	if was.Phase != o.m.Phase || valid != o.wasValid {
		o.out.changedSessions()
	}
	if valid && !o.wasValid {
		o.out.add(forAllKeys{protocol.KeyResume})
	}
	o.wasValid = valid
	if o.m.Phase == protocol.Ended && was.Phase != protocol.Ended && !o.drain.closing {
		o.begin()
	}
}

func (o *Self) act(a protocol.SessionAction, m protocol.Moment) {
	switch a.Kind {
	case protocol.SendHeartbeat, protocol.MarkDead:
		o.send(a, m)
	case protocol.ReadSession:
		o.out.add(readOwnSession{o.ids.Session})
	case protocol.Renewed:
		o.out.add(LeaseRenewed{o.ids.Session, a.Acked})
	case protocol.CancelTasks:
		o.out.add(leaseExpired{o.ids.Session})
	case protocol.KillTasks:
		if o.m.Phase == protocol.Lost {
			o.out.add(sessionLost{o.ids.Session})
		}
	case protocol.HardStop: // the watchdog reports it, whatever holds up the loop
	case protocol.SessionOver:
		o.out.add(sessionEnded{o.ids.Session, o.Member.record.Instance, o.m.Acked})
	}
	if kind, ok := o.m.ForKeys(a.Kind); ok {
		o.out.add(forAllKeys{kind})
	}
}

// send asks for the session's document to be written. A repeat is the very same write.
func (o *Self) send(a protocol.SessionAction, m protocol.Moment) {
	if same := withoutCopies(o.m.Write); o.written != same {
		o.written = same
		doc := record.Session{
			ID: o.ids.Session, Rev: a.NewRev, WriterID: o.ids.Next(), Heartbeat: a.Heartbeat,
			State: record.StateName(a.State), Lease: o.p.T,
			Instance: o.Member.record.Instance, Clock: m.Rev,
		}
		if a.State == protocol.Dead {
			doc.Died, doc.Cause = m.Clock, "it could not renew its lease in time"
			if o.drain.closing {
				doc.Cause, doc.Left = "it left in order", true
			}
		}
		o.write = driver.Change{IfRev: a.IfRev, Doc: doc.Doc()}
	}
	w := sessionWrite{Change: o.write}
	if a.IfRev == 0 && a.Kind == protocol.SendHeartbeat {
		w.Member = o.Member.due(m)
	}
	o.out.add(w)
}

// withoutCopies is w without what changes between two copies of one write.
func withoutCopies(w protocol.SessionWrite) protocol.SessionWrite {
	w.Sent, w.Under = false, true
	return w
}

// memberDoc is what the instance says of itself, and the document that others read. It is not safe for concurrent use.
type memberDoc struct {
	ids     *record.WriterIDs
	retry   time.Duration
	record  record.Member
	opened  int64          // the store's clock at the process's first session
	dirty   bool           // the document is not what it should be
	flying  bool           // write is under way
	write   *driver.Change // an unanswered write, repeated as it is
	retryAt protocol.Instant
}

// begin begins the member of another session.
func (m *memberDoc) begin(ids *record.WriterIDs, lease time.Duration) {
	m.ids = ids
	m.record.Session, m.record.Rev, m.record.LeaseMS = ids.Session, 0, lease.Milliseconds()
	m.dirty, m.flying, m.write, m.retryAt = true, false, nil, protocol.Instant{}
}

// due is the write that brings the document up to date, if one is due: an unanswered one again, as it was.
func (m *memberDoc) due(at protocol.Moment) *driver.Change {
	if m.opened == 0 && at.Rev != 0 { // by no other clock than the store's: it says which of two revisions is newer
		m.opened, m.dirty = at.Clock, true
	}
	if m.flying || !m.dirty && m.write == nil || at.Now.HolderElapsed(m.retryAt) < 0 {
		return nil
	}
	if m.write == nil {
		m.record.Opened = m.opened
		next := m.record
		next.Rev++
		m.write = &driver.Change{IfRev: m.record.Rev, Doc: next.Doc(m.ids.Next())}
		m.dirty = false
	}
	m.flying = true
	return m.write
}

// Record is what the instance says of itself.
func (m *memberDoc) Record() record.Member { return m.record }

// readable says whether others can read it.
func (m *memberDoc) readable() bool { return m.record.Rev > 0 }

// Set changes what the instance says of itself. Session, Rev, Instance, Opened and LeaseMS stay as they are.
func (m *memberDoc) Set(r record.Member) {
	was := m.record
	r = r.Clone()
	r.Session, r.Rev, r.Instance, r.Opened, r.LeaseMS = was.Session, was.Rev, was.Instance, was.Opened, was.LeaseMS
	m.record, m.dirty = r, true
}

// answered takes the outcome of a write. One that the store cannot take at all is not repeated. It reports whether
// others are to look.
func (m *memberDoc) answered(change driver.Change, out driver.Outcome, now protocol.Instant) bool {
	if change.Doc.ID != m.ids.Session {
		return false
	}
	m.flying, m.retryAt = false, now.Add(m.retry)
	switch record.StatusOf(out) {
	case protocol.Applied:
		m.record.Rev = change.Doc.Rev
	case protocol.Refused: // edited manually: on top of what is there now
		m.dirty, m.record.Rev = true, 0
		if out.Doc != nil {
			m.record.Rev = out.Doc.Rev
		}
	case protocol.Unknown:
		return false
	case protocol.Unwritable:
	}
	m.write = nil
	return true
}

// found takes what others read as this instance's member, asked for when its revision was rev; doc is nil when it is
// absent. It reports whether the document was deleted or edited: then it is written again.
func (m *memberDoc) found(session string, rev int64, doc *driver.Doc) bool {
	if session != m.ids.Session || m.flying || m.dirty || m.write != nil || m.record.Rev != rev {
		return false
	}
	found := int64(0)
	if doc != nil {
		if found = doc.Rev; found == rev && string(doc.Body) == string(m.record.Doc(driver.WriterID{}).Body) {
			return false
		}
	}
	m.record.Rev, m.dirty = found, true
	return true
}
