package engine

import (
	"slices"
	"strconv"
	"time"

	"github.com/shardctl/shardctl/internal/protocol"
	"github.com/shardctl/shardctl/internal/record"
	"github.com/shardctl/shardctl/pkg/store/driver"
)

// peer is one other session.
type peer struct {
	m           protocol.Peer
	doc         record.Session
	heartbeatAt protocol.Instant // when its newest heartbeat was first seen here
	shownAt     protocol.Instant // when a reply last showed it, whatever it said
	killing     *driver.Change   // the kill under way: a repeat is the very same write
	dying       *record.Session  // what it makes of the session
	late        bool             // the last look should have shown another heartbeat
	retryAt     protocol.Instant // no kill or read before, after a failure
}

// lives says whether the session is known, and not known to be dead.
func (q *peer) lives() bool { return q.m.Known && !q.m.Dead() }

// watched says whether what is known of a session is fresh enough to judge it: a look at it succeeded a moment ago.
// Else it may have sent heartbeats that no look has shown.
func (q *peer) watched(p protocol.Params, now protocol.Instant) bool {
	return q.m.Gone || q.m.Repeat || !now.Reached(q.shownAt, p.Outage)
}

// isLate says whether a look should have shown another heartbeat. The session may have died, and its neighbours with
// it.
func (q *peer) isLate(p protocol.Params, now protocol.Instant) bool {
	return q.lives() && now.Reached(q.m.Seen, max(p.T, q.m.Lease)/10+p.Observe/2)
}

// age is for how long the newest heartbeat of a session has been known. One that lives may have written others since it
// was last looked at: no more than the time between two of them counts from then on.
func (q *peer) age(now protocol.Instant) time.Duration {
	if !q.lives() {
		return now.HolderElapsed(q.heartbeatAt)
	}
	return q.shownAt.HolderElapsed(q.heartbeatAt) + min(now.HolderElapsed(q.shownAt), q.m.Lease/10)
}

// kill is the write that marks the session dead. A repeat is the very same write; dead makes the document of a new one.
func (q *peer) kill(session string, a protocol.PeerAction, dead func() record.Session) killSession {
	first := q.killing == nil || q.killing.IfRev != a.IfRev || q.killing.Doc.Rev != a.NewRev
	if first {
		doc := dead()
		doc.Rev = a.NewRev
		q.dying, q.killing = &doc, &driver.Change{IfRev: a.IfRev, Doc: doc.Doc()}
	}
	return killSession{
		session: session, instance: q.doc.Instance, cause: q.dying.Cause, change: *q.killing, first: first,
	}
}

// formatSeconds is a duration for people: 20 s.
func formatSeconds(d time.Duration) string {
	return strconv.FormatFloat(d.Seconds(), 'f', -1, 64) + " s"
}

// peerTable is the other sessions by ID, as far as they are known. To ask changes nothing.
type peerTable map[string]*peer

// Dead says whether the session is known to be dead.
func (s peerTable) Dead(session string) bool {
	q := s[session]
	return q != nil && q.m.Dead()
}

// Known says whether anything was seen of the session.
func (s peerTable) Known(session string) bool {
	q := s[session]
	return q != nil && q.m.Known
}

const unknownDeathCause = "its session was marked dead"

// Death says in words how a session died, and when its last heartbeat was first seen here.
func (s peerTable) Death(session string) (cause string, last protocol.Instant) {
	q := s[session]
	if q == nil {
		return unknownDeathCause, last
	}
	if cause = q.doc.Cause; cause == "" {
		cause = unknownDeathCause
	}
	return cause, q.heartbeatAt
}

// Alive lists the sessions not known to be dead, in order.
func (s peerTable) Alive() []string {
	var ids []string
	for id, q := range s {
		if q.m.Known && !q.m.Dead() {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// Each calls do for every session whose document is known, in no order.
func (s peerTable) Each(do func(session string, is protocol.State)) {
	for id, q := range s {
		if q.m.Known && !q.m.Gone {
			do(id, q.m.State)
		}
	}
}

// SeenSession is one other session as this process knows it.
type SeenSession struct {
	ID       string
	Instance string
	State    record.SessionState
	Age      time.Duration // since its newest heartbeat was first seen here
	Remote   map[record.Key]int64
	Cause    string // of a dead one, for people
	Left     bool   // it left in order
}

// Seen lists the sessions whose documents are known, in no order.
func (s peerTable) Seen(now protocol.Instant) []SeenSession {
	seen := make([]SeenSession, 0, len(s))
	for id, q := range s {
		if q.m.Known && !q.m.Gone {
			seen = append(seen, SeenSession{
				ID: id, Instance: q.doc.Instance, State: record.StateName(q.m.State), Age: q.age(now),
				Remote: q.doc.Remote, Cause: q.doc.Cause, Left: q.doc.Left,
			})
		}
	}
	return seen
}

// Ages says how long ago each session's newest heartbeat was first seen here, as of the last look at it.
func (s peerTable) Ages(now protocol.Instant) map[string]time.Duration {
	ages := make(map[string]time.Duration, len(s)+1)
	for id, q := range s {
		ages[id] = q.age(now)
	}
	return ages
}

// longestLease is the largest T of all that are known; at least least.
func (s peerTable) longestLease(least time.Duration) time.Duration {
	for _, q := range s {
		least = max(least, q.m.Lease)
	}
	return least
}

// forgetDead forgets those that have been dead for long, and returns them.
func (s peerTable) forgetDead(now protocol.Instant) (forgotten []string) {
	for id, q := range s {
		if q.m.Dead() && now.KillerElapsed(q.m.DeadAt) > driver.KindSession.Info().Retention {
			delete(s, id)
			forgotten = append(forgotten, id)
		}
	}
	return forgotten
}

// killSchedule is when sessions are to be judged, so that not all of them are looked at in every tick.
type killSchedule struct {
	alive int              // sessions not known to be dead
	soon  bool             // something has happened that the last judging did not know of
	next  protocol.Instant // no session can be judged dead before, unless soon
}

// count adds by for a session that lives.
func (j *killSchedule) count(q *peer, by int) {
	if q != nil && q.lives() {
		j.alive += by
	}
}

// isDue says whether any session can be judged dead now.
func (j *killSchedule) isDue(now protocol.Instant) bool {
	return j.soon || now.HolderElapsed(j.next) >= 0
}

// begin begins a judging of all. A session that is met after it cannot be judged for T.
func (j *killSchedule) begin(p protocol.Params, now protocol.Instant) {
	j.soon, j.next = false, now.Add(p.T)
}

// expect takes note of when the session can be judged next. Anyone who answers, or looks at it, makes that soon.
func (j *killSchedule) expect(p protocol.Params, q *peer, now protocol.Instant) {
	if !q.lives() || q.m.Writing || q.m.Reading || !q.watched(p, now) {
		return
	}
	left := -now.HolderElapsed(q.retryAt)
	if !q.m.Repeat {
		left = max(left, max(p.T, q.m.Lease)-now.HolderElapsed(q.m.Seen))
	}
	j.sooner(now, left)
}

func (j *killSchedule) sooner(now protocol.Instant, left time.Duration) {
	if -now.HolderElapsed(j.next) > left {
		j.next = now.Add(left)
	}
}

// remoteSchedule is when the remote leases of dead sessions end: their keys may be claimed then.
type remoteSchedule struct {
	pending bool
	next    protocol.Instant // the end of the next one, where one is pending
}

// due says whether a remote lease has ended since the last call that said so, or a session has died.
func (r *remoteSchedule) due(all peerTable, now protocol.Instant) bool {
	if !r.pending || now.KillerElapsed(r.next) < 0 {
		return false
	}
	*r = remoteSchedule{}
	for _, q := range all {
		for _, ms := range q.doc.Remote {
			granted := time.Duration(ms) * time.Millisecond
			if !q.m.Dead() || q.m.Freed(granted, now) {
				continue
			}
			left := granted - now.KillerElapsed(q.m.DeadAt)
			if !r.pending || -now.KillerElapsed(r.next) > left {
				r.pending, r.next = true, now.Add(left)
			}
		}
	}
	return true
}

const (
	// pollAll is up to how many others each look shows all. With more of them a look shows the neighbours that follow the
	// own session in order of names. So each session is watched closely by as many others.
	pollAll    = 7
	neighbours = 4
	// pollAllSoon is up to how many others one that has changed makes the next look show all of them.
	pollAllSoon = 64
)

// pollSchedule is when the other sessions are looked at.
type pollSchedule struct {
	busy    bool
	all     bool             // the look under way is for all sessions
	soon    bool             // the next look comes without delay
	changed bool             // a session has changed, or may have died: a look for all is wanted
	last    protocol.Instant // start of the last look
	lastAll protocol.Instant // start of the last look for all sessions that succeeded
}

// gap is the least time between two looks.
func (l *pollSchedule) gap(p protocol.Params) time.Duration {
	if l.soon {
		return p.Observe / 8
	}
	return p.Observe
}

// gapAll is the least time between two looks for all sessions. However many there are, at rest these show 200 more in
// each T than looks at neighbours would.
func (l *pollSchedule) gapAll(alive int, p protocol.Params) time.Duration {
	rest := p.T / 200 * time.Duration(alive+1-neighbours)
	switch {
	case alive <= pollAll, l.changed && alive <= pollAllSoon:
		return 0
	case l.changed:
		return min(rest, p.T/2)
	}
	return rest
}

// due begins a look when it is time. alive is how many sessions are not known to be dead.
func (l *pollSchedule) due(alive int, p protocol.Params, now protocol.Instant) bool {
	if l.busy || !now.Reached(l.last, l.gap(p)) {
		return false
	}
	l.all = now.Reached(l.lastAll, l.gapAll(alive, p))
	l.busy, l.soon, l.changed, l.last = true, false, l.changed && !l.all, now
	return true
}

// done takes the end of the look under way. It reports whether all sessions were shown.
func (l *pollSchedule) done(ok bool) (all bool) {
	l.busy = false
	switch {
	case l.all && ok:
		l.lastAll = l.last
	case l.all:
		l.changed = true // it is still wanted
	}
	return l.all && ok
}

// Connectivity is how well this process reaches the store.
type Connectivity struct {
	p         protocol.Params
	read      protocol.Instant // arrival of the last reply to a look
	heartbeat protocol.Instant // of the last acknowledged heartbeat
	outageEnd protocol.Instant
}

// StoreUnreachable says whether own reads or heartbeats have failed for longer than T/4. What is seen of others then
// says nothing about them: they may be as unable to write as this process is.
func (r *Connectivity) StoreUnreachable(own protocol.Session, now protocol.Instant) bool {
	return own.StoreUnreachable(r.p, r.read, r.heartbeat, now)
}

// Silent says whether no own heartbeat was acknowledged for d.
func (r *Connectivity) Silent(d time.Duration, now protocol.Instant) bool {
	return now.Reached(r.heartbeat, d)
}

// SinceOutage is the time since the last outage of the store ended; negative: there was none.
func (r *Connectivity) SinceOutage(now protocol.Instant) time.Duration {
	if r.outageEnd == (protocol.Instant{}) {
		return -1
	}
	return now.HolderElapsed(r.outageEnd)
}

// succeeded notes an own success. After failures for longer than T/4 an outage has ended, and outage is its length.
func (r *Connectivity) succeeded(last *protocol.Instant, at protocol.Instant) (outage time.Duration) {
	before := *last
	*last = at
	if !r.p.OutageSince(before, at) {
		return 0
	}
	r.outageEnd = at
	return at.HolderElapsed(before)
}

// predecessors are sessions of processes before this one, of which it is certain that nothing is left, and which are
// not known to be dead yet. Only ID and Remote count.
type predecessors struct {
	left  map[string]record.Session
	began protocol.Instant // this process: Remote counts from then
	shown protocol.Instant // since when the own session can be seen by others
}

func newPredecessors(all []record.Session, now protocol.Instant) predecessors {
	ps := predecessors{left: make(map[string]record.Session, len(all)), began: now}
	for _, before := range all {
		ps.left[before.ID] = before
	}
	return ps
}

// remote is what is left of a predecessor's remote leases. They were given before this process began.
func (ps *predecessors) remote(of record.Session, now protocol.Instant) map[record.Key]int64 {
	left := map[record.Key]int64{}
	for key, ms := range of.Remote {
		if ms -= now.KillerElapsed(ps.began).Milliseconds(); ms > 0 {
			left[key] = ms
		}
	}
	return left
}

// predecessorPolls is how many looks of the others the own session has been there for before those of predecessors end.
// Those who share out the keys of dead sessions shall see who has come back for them. Else the keys go to all, and move
// again later.
const predecessorPolls = 2

// due says whether predecessors are to end. There must be some, and the others must have had the time to see the own
// session, and what its instance says of itself. announced says that they can read it.
func (ps *predecessors) due(announced bool, p protocol.Params, now protocol.Instant) bool {
	switch {
	case len(ps.left) == 0:
		return false
	case !announced:
		ps.shown = protocol.Instant{}
		return false
	case ps.shown == protocol.Instant{}:
		ps.shown = now
	}
	return now.Reached(ps.shown, predecessorPolls*p.Observe)
}
