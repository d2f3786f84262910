package elect

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"

	"github.com/shardctl/shardctl/pkg/elect/protocol"
	"github.com/shardctl/shardctl/pkg/elect/record"
	"github.com/shardctl/shardctl/pkg/elect/store"
)

// ownSession is this process's session: the machine and the documents round it.
type ownSession struct {
	id     string
	m      protocol.Session
	seq    int64 // of the last stamp
	change store.Change
	repeat protocol.SessionWrite // what change was made for
	opened int64                 // the store's clock at the process's first session

	member      Member
	memberDirty bool
	memberBusy  bool
	memberWrite *store.Change // an unanswered write, repeated as it is
	memberAfter protocol.Instant
	wasValid    bool
}

// stamp is a new stamp of this session.
func (s *ownSession) stamp() store.WriterID {
	s.seq++
	return store.WriterID{Session: s.id, Seq: s.seq}
}

// newSession begins a session with a fresh name. Everything of the one before is gone.
func (e *Elector) newSession() {
	s := &e.loop.session
	opened, member := s.opened, s.member
	if member.Instance == "" {
		member = e.cfg.Member
	}
	*s = ownSession{id: uuid.NewString(), opened: opened, member: member, memberDirty: true}
	s.member.Session, s.member.Rev = s.id, 0
	s.member.LeaseMS = e.p.T.Milliseconds()
	s.m.Drain = e.loop.drain // a drain outlives the session it was asked in
	if e.cfg.Guard != nil {
		e.cfg.Guard.SessionOpening(s.id)
	}
	e.log.Info("Opening a session", "session", s.id)
}

// stepSession feeds the session's machine and does what it says.
func (e *Elector) stepSession(ev protocol.SessionEvent, now protocol.Instant) {
	s := &e.loop.session
	ev.Clock = e.revs.now()
	next, acts := s.m.Step(e.p, ev, now)
	was := s.m
	s.m = next
	for _, a := range acts {
		e.actSession(a, now)
	}
	if was.Phase != s.m.Phase || was.Acked != s.m.Acked {
		e.lease.Store(&validity{session: s.id, open: s.m.Phase == protocol.Open, acked: s.m.Acked})
	}
	if s.m.Forgot && !was.Forgot {
		e.storeForgot(now)
	}
	valid := s.m.Valid(e.p, now)
	e.loop.viewDirty = e.loop.viewDirty || was.Phase != s.m.Phase || valid != s.wasValid
	if valid && !s.wasValid {
		s.wasValid = true
		e.stepKeys(protocol.KeyEvent{Kind: protocol.KeyResume})
	}
	s.wasValid = valid
}

func (e *Elector) actSession(a protocol.SessionAction, now protocol.Instant) {
	s := &e.loop.session
	switch a.Kind {
	case protocol.SendBeat, protocol.MarkDead:
		e.sendBeat(a)
	case protocol.ReadSession:
		e.readSession()
	case protocol.Renewed:
		e.renewed(a, now)
	case protocol.CancelTasks:
		if e.loop.running > 0 {
			e.log.Info("Cannot renew the lease: cancelling tasks", "session", s.id)
		}
	case protocol.KillTasks:
		if s.m.Phase == protocol.Lost {
			e.log.Info("The session was ended by another", "session", s.id)
		}
	case protocol.HardStop: // the watchdog tells of it, whatever holds up the loop
	case protocol.SessionOver:
		e.sessionOver()
	}
	if kind, ok := s.m.ForKeys(a.Kind); ok {
		e.stepKeys(protocol.KeyEvent{Kind: kind})
	}
}

// forgotFor is how long the view tells that the store forgot: an operator has to see it.
const forgotFor = time.Hour

var errStoreForgot = errors.New("the store shows the own session below a revision it had acknowledged")

// storeForgot notes that the own session was read below its acknowledged revision: a backup was restored under running replicas, the
// document was deleted, or the store lost what a majority had acknowledged.
func (e *Elector) storeForgot(now protocol.Instant) {
	e.loop.forgot, e.loop.forgotAt, e.loop.viewDirty = true, now, true
	e.log.Error(errStoreForgot, "Two runs of a key are possible for T/2: restore backups only with all replicas stopped", "session", e.loop.session.id)
}

func (e *Elector) renewed(a protocol.SessionAction, now protocol.Instant) {
	s := &e.loop.session
	if e.cfg.Guard != nil {
		e.cfg.Guard.Renewed(s.id, a.Acked, e.p)
	}
	e.notOutage(&e.loop.lastBeat, now)
}

func (e *Elector) sessionOver() {
	s := &e.loop.session
	if e.cfg.Guard != nil {
		e.cfg.Guard.SessionOver(s.id)
	}
	e.bumpAll()
	e.log.Info("Session ended", "session", s.id)
	// It is as dead as any other now: what it owned can be taken at once.
	e.loop.peers[s.id] = &peer{
		m:   protocol.Peer{Known: true, State: protocol.Dead, Lease: e.p.T, DeadAt: e.clock.Now()},
		doc: Session{ID: s.id, State: Dead, Lease: e.p.T, Instance: s.member.Instance}, last: s.m.Acked,
	}
	if !e.loop.closing {
		e.newSession()
	}
}

// tasksOff tells the session when nothing runs any more: then it may end, if it is to.
func (e *Elector) tasksOff(now protocol.Instant) {
	l := &e.loop
	if l.session.m.TasksOff(l.running, len(l.keys)) {
		e.stepSession(protocol.SessionEvent{Kind: protocol.SessionTasksOff}, now)
	}
}

// sendBeat writes the session's document. A repeat is the very same write.
func (e *Elector) sendBeat(a protocol.SessionAction) {
	s := &e.loop.session
	if s.repeat != copyOf(s.m.Write) {
		s.repeat = copyOf(s.m.Write)
		doc := Session{
			ID: s.id, Rev: a.NewRev, WriterID: s.stamp(), Heartbeat: a.Beat, State: record.StateName(a.State), Lease: e.p.T, Instance: s.member.Instance,
			Clock: e.revs.now(),
		}
		if a.State == protocol.Dead {
			doc.Died, doc.Cause = e.storeNow(), "it ended its session itself"
		}
		s.change = store.Change{IfRev: a.IfRev, Doc: doc.Doc()}
	}
	change, id := s.change, s.id
	first := a.IfRev == 0 && a.Kind == protocol.SendBeat
	var member []store.Change
	if first {
		member = e.memberChange()
	}
	sent := e.clock.Now()
	e.beside("heartbeat", func(ctx context.Context) (func(), error) {
		if first {
			e.writeMember(ctx, member) // before the session, so that whoever sees the one finds the other
		}
		outs, err := e.store.Apply(ctx, change)
		if err == nil {
			err = outs[0].Err
		}
		status := statusOf(outs, err)
		if e.cfg.Hooks.Beat != nil {
			e.cfg.Hooks.Beat(e.clock.Now().HolderElapsed(sent), err)
		}
		return func() {
			if e.loop.session.id != id {
				return
			}
			if err != nil {
				e.log.V(1).Info("Heartbeat failed", "session", id, "error", err.Error())
			}
			if status == protocol.Applied && change.Doc.State != string(Live) {
				e.bumpAll()
			}
			e.stepSession(protocol.SessionEvent{Kind: protocol.SessionAnswer, Status: status}, e.clock.Now())
		}, err
	})
}

// copyOf is w without what changes between two copies of one write.
func copyOf(w protocol.SessionWrite) protocol.SessionWrite {
	w.Sent, w.Under = false, true
	return w
}

func (e *Elector) readSession() {
	id := e.loop.session.id
	e.beside("read", func(ctx context.Context) (func(), error) {
		res, err := e.store.Read(ctx, store.KindSession, id)
		ev := protocol.SessionEvent{Kind: protocol.SessionRead, OK: err == nil}
		if err == nil && len(res.Docs) > 0 {
			d := res.Docs[0]
			ev.Rev, ev.Beat, ev.State, ev.Mine = d.Rev, d.Count, record.StateOf(d.State), d.WriterID.Session == id
		}
		return func() {
			if e.loop.session.id == id {
				e.stepSession(ev, e.clock.Now())
			}
		}, err
	})
}

// memberChange is the write that brings the member's document up to date, if one is due: an unanswered one again,
// as it was.
func (e *Elector) memberChange() []store.Change {
	s := &e.loop.session
	if s.memberBusy || (!s.memberDirty && s.memberWrite == nil) || e.clock.Now().HolderElapsed(s.memberAfter) < 0 {
		return nil
	}
	if s.memberWrite == nil {
		s.member.Opened = s.opened
		m := s.member
		m.Rev++
		s.memberWrite = &store.Change{IfRev: s.member.Rev, Doc: m.Doc(s.stamp())}
		s.memberDirty = false
	}
	s.memberBusy = true
	return []store.Change{*s.memberWrite}
}

// flushMember writes what this instance says of itself, when it has changed since.
func (e *Elector) flushMember() {
	s := &e.loop.session
	if s.m.Phase != protocol.Open {
		return
	}
	if s.opened == 0 && e.offset.Load() != 0 { // by no other clock than the store's: it tells the newer of two revisions
		s.opened, s.memberDirty = e.storeNow(), true
	}
	if changes := e.memberChange(); len(changes) > 0 {
		e.beside("member", func(ctx context.Context) (func(), error) {
			e.writeMember(ctx, changes)
			return func() {}, nil
		})
	}
}

func (e *Elector) writeMember(ctx context.Context, changes []store.Change) {
	if len(changes) == 0 {
		return
	}
	id := changes[0].Doc.ID
	outs, err := e.store.Apply(ctx, changes...)
	status := statusOf(outs, err)
	e.post(func() {
		s := &e.loop.session
		if s.id != id {
			return
		}
		s.memberBusy, s.memberAfter = false, e.clock.Now().Add(e.p.Retry)
		switch status {
		case protocol.Applied:
			s.member.Rev = changes[0].Doc.Rev
		case protocol.Refused: // written by hand: on top of what is there now
			s.memberDirty = true
			s.member.Rev = 0
			if outs != nil && outs[0].Doc != nil {
				s.member.Rev = outs[0].Doc.Rev
			}
		case protocol.Unknown:
			if err != nil { // cannot be sent at all: do not repeat it
				e.log.Error(err, "Cannot write what this instance says of itself", "session", id)
				break
			}
			return
		}
		s.memberWrite = nil
		e.bump(groupMembers)
	})
}

// SetMember changes what this instance says of itself. Session, Rev, Instance, Opened and LeaseMS stay as they are.
// New caps hold at once; keys above them are not given up here.
func (e *Elector) SetMember(ctx context.Context, m Member) error {
	if err := m.Validate(); err != nil {
		return err
	}
	return e.ask(ctx, func() {
		s := &e.loop.session
		m.Session, m.Rev, m.Instance, m.Opened, m.LeaseMS = s.member.Session, s.member.Rev, s.member.Instance, s.member.Opened, s.member.LeaseMS
		s.member = m
		s.memberDirty = true
		e.loop.viewDirty = true
	})
}

// statusOf is the outcome of a single change as the protocol counts it.
func statusOf(outs []store.Outcome, err error) protocol.Status {
	if err != nil && len(outs) == 0 {
		return protocol.Unknown
	}
	switch outs[0].Status {
	case store.Applied:
		return protocol.Applied
	case store.Refused, store.Overtaken:
		return protocol.Refused
	default:
		return protocol.Unknown
	}
}
