package simulation

import (
	"slices"

	"github.com/shardctl/shardctl/pkg/elect/protocol"
)

// nobody stands where a session's index could.
const nobody int32 = -1

// stamp names a write: who wrote, and a number that it never uses twice.
type stamp struct {
	session int32
	seq     int64
}

type sessionDoc struct {
	exists bool
	rev    int64
	beat   int64
	state  protocol.State
	stamp  stamp
}

type memberDoc struct {
	exists bool
	rev    int // a late copy of an older one is refused
	cap    int // most keys of each group
	list   int // which task list it has
}

type lockDoc struct {
	rev     int64 // 0: absent
	session int32
	next    int32
	stamp   stamp
	token   int64
	since   int64 // store's clock of the last change of owner, ms
}

// session is what does not change about a session.
type session struct {
	name    string // as it stands in plans
	order   uint64 // of its name among others
	replica *replica
}

// store is the documents. It tests revisions and nothing else, and knows a writer's own write again by its stamp.
type store struct {
	about    []session
	sessions []sessionDoc
	members  []memberDoc
	locks    []lockDoc
	alive    []int32 // live and draining sessions in the order of their names
	owned    []int32 // by session: locks that name it

	seq     int64   // rises with every change of a lock
	changed []int32 // locks changed since the last snapshot, with repeats
	states  []int32 // sessions whose state or member has changed, ever, in order
	down    bool
	blind   bool // writes whatever the revision is: for the test that a store as bad is found out
}

// status is what a compare-and-set makes of the document found: applied now, or before, or refused.
func outcome(rev, ifRev int64, found, own stamp) (write bool, status protocol.Status) {
	switch {
	case rev == ifRev:
		return true, protocol.Applied
	case found == own:
		return false, protocol.Applied
	}
	return false, protocol.Refused
}

func (s *store) putSession(id int32, ifRev int64, doc sessionDoc) protocol.Status {
	d := &s.sessions[id]
	write, status := outcome(d.rev, ifRev, d.stamp, doc.stamp)
	if !write {
		return status
	}
	was := d.exists && d.state != protocol.Dead
	turned := !d.exists || d.state != doc.state
	doc.exists = true
	*d = doc
	if turned {
		s.states = append(s.states, id)
		s.list(id, was, doc.state != protocol.Dead)
	}
	return status
}

// list keeps the list of those alive.
func (s *store) list(id int32, was, is bool) {
	at, _ := slices.BinarySearchFunc(s.alive, s.about[id].order, func(a int32, order uint64) int {
		switch o := s.about[a].order; {
		case o < order:
			return -1
		case o > order:
			return 1
		}
		return 0
	})
	switch {
	case is && !was:
		s.alive = slices.Insert(s.alive, at, id)
	case was && !is:
		s.alive = slices.Delete(s.alive, at, at+1)
	}
}

// following is the n sessions alive that come after one in the order of names, wrapping.
func (s *store) following(id int32, n int, into []int32) []int32 {
	at, found := slices.BinarySearchFunc(s.alive, s.about[id].order, func(a int32, order uint64) int {
		switch o := s.about[a].order; {
		case o < order:
			return -1
		case o > order:
			return 1
		}
		return 0
	})
	if found {
		at++
	}
	for i := range min(n, len(s.alive)) {
		into = append(into, s.alive[(at+i)%len(s.alive)])
	}
	return into
}

func (s *store) putMember(id int32, doc memberDoc) {
	if s.members[id].rev < doc.rev {
		s.members[id] = doc
		s.states = append(s.states, id)
	}
}

// putLock writes a lock. token and since of doc are as the writer wants them.
func (s *store) putLock(key int32, ifRev int64, doc lockDoc) protocol.Status {
	d := &s.locks[key]
	write, status := outcome(d.rev, ifRev, d.stamp, doc.stamp)
	if !write && !s.blind {
		return status
	}
	status = protocol.Applied
	if d.rev > 0 && d.session != nobody {
		s.owned[d.session]--
	}
	if doc.session != nobody {
		s.owned[doc.session]++
	}
	*d = doc
	s.seq++
	s.changed = append(s.changed, key)
	return status
}
