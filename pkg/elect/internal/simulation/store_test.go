package simulation

import (
	"slices"

	"github.com/shardctl/shardctl/internal/protocol"
	"github.com/shardctl/shardctl/internal/record"
	"github.com/shardctl/shardctl/pkg/store/driver"
)

// noSession stands where the number of a session could, or another number.
const noSession int32 = -1

// session is a session's documents, and what does not change about it. Sessions are numbered in the order in which
// they were opened.
type session struct {
	name    string
	order   uint64 // of its name among others
	replica *replica

	doc    driver.Doc     // revision 0: absent
	says   record.Session // doc, decoded
	member driver.Doc     // revision 0: absent
	list   int            // what the member says: which task list it has,
	cap    int            // and the most keys of each group
	owned  []int32        // keys whose locks name it
	spared int            // the last sweep that left it out
}

// documents is the store. It tests revisions and nothing else, and knows a writer's own write again by its ID.
type documents struct {
	sessions []session
	number   map[string]int32 // of a session
	locks    []*record.Lock   // by the number of the key; nil: absent. None is ever changed
	place    []int32          // by key: where it is in owned of its session, or in free
	free     []int32          // keys whose locks are there and name no session
	high     map[string]int64 // the groups' high-water marks
	alive    []int32          // live and draining sessions in the order of their names

	mutexes map[string]driver.Doc // by id

	sweeps  int     // so far
	changed []int32 // locks changed since the last snapshot, with repeats
	states  []int32 // sessions whose state or member has changed, ever, in order
	down    bool
	// They write whatever the revision of a lock, or of a mutex is: for the tests that a store as bad is found out.
	blind, blindMutexes bool
}

func newDocuments(keys int) documents {
	return documents{
		number: map[string]int32{}, locks: make([]*record.Lock, keys), place: make([]int32, keys),
		high: map[string]int64{}, mutexes: map[string]driver.Doc{},
	}
}

// open notes a session that a replica is about to create.
func (d *documents) open(name string, order uint64, r *replica) {
	d.number[name] = int32(len(d.sessions))
	d.sessions = append(d.sessions, session{name: name, order: order, replica: r})
}

// named is the number of a session; noSession for the empty name.
func (d *documents) named(name string) int32 {
	if name == "" {
		return noSession
	}
	return d.number[name]
}

// answer says how a change of a document that is no lock ends, and whether it is to be made now.
func answer(c *driver.Change, doc driver.Doc) (out driver.Outcome, write bool) {
	write, out.Status = compare(c, &doc)
	if !write {
		out.Doc = &doc
	}
	return out, write
}

// compare says whether a change is to be made now, and how it ends.
func compare(c *driver.Change, found *driver.Doc) (write bool, status driver.Status) {
	switch {
	case found.Rev == c.IfRev:
		return true, driver.Applied
	case found.WriterID == c.Doc.WriterID:
		return false, driver.Applied
	}
	return false, driver.Refused
}

// put changes a document that is no lock.
func (d *documents) put(c *driver.Change) driver.Outcome {
	switch c.Doc.Kind {
	case driver.KindSession:
		return d.putSession(c)
	case driver.KindMember:
		return d.putMember(c)
	case driver.KindGroup:
		d.high[c.Doc.ID] = max(d.high[c.Doc.ID], c.Doc.Rev)
	case driver.KindLock, driver.KindValue, driver.KindOverride, driver.KindEvent, driver.KindMutex, driver.KindRequest:
		// A lock is changed by putLock, a mutex by putMutex; the others are of no interest.
	}
	return driver.Outcome{Status: driver.Applied}
}

func (d *documents) putSession(c *driver.Change) driver.Outcome {
	id := d.number[c.Doc.ID]
	s := &d.sessions[id]
	out, write := answer(c, s.doc)
	if !write {
		return out
	}
	was, before := s.lives(), s.says.State
	s.doc = c.Doc
	s.says, _ = record.SessionFrom(c.Doc)
	if c.IfRev == 0 || s.says.State != before {
		d.states = append(d.states, id)
		d.list(id, was, s.lives())
	}
	return out
}

func (s *session) lives() bool { return s.doc.Rev > 0 && s.says.State != record.Dead }

// state is what the session's document says.
func (s *session) state() protocol.State {
	if s.doc.Rev == 0 {
		return protocol.Absent
	}
	return record.StateOf(string(s.says.State))
}

func (d *documents) putMember(c *driver.Change) driver.Outcome {
	id := d.number[c.Doc.ID]
	s := &d.sessions[id]
	out, write := answer(c, s.member)
	if !write {
		return out
	}
	s.member = c.Doc
	m, _ := record.MemberFrom(c.Doc)
	s.list = int(m.ListRevision)
	for _, limit := range m.Caps {
		s.cap = limit
	}
	d.states = append(d.states, id)
	return out
}

// list keeps the list of those alive.
func (d *documents) list(id int32, was, is bool) {
	at, _ := d.find(id)
	switch {
	case is && !was:
		d.alive = slices.Insert(d.alive, at, id)
	case was && !is:
		d.alive = slices.Delete(d.alive, at, at+1)
	}
}

// find is where a session is among those alive, or would be.
func (d *documents) find(id int32) (int, bool) {
	return slices.BinarySearchFunc(d.alive, d.sessions[id].order, func(a int32, order uint64) int {
		switch o := d.sessions[a].order; {
		case o < order:
			return -1
		case o > order:
			return 1
		}
		return 0
	})
}

// following appends the n sessions alive that come after one in the order of names, wrapping.
func (d *documents) following(id int32, n int, into []record.Session) []record.Session {
	at, found := d.find(id)
	if found {
		at++
	}
	for i := range min(n, len(d.alive)) {
		into = append(into, d.sessions[d.alive[(at+i)%len(d.alive)]].says)
	}
	return into
}

// putLock changes a lock. wrote says that it is another than before.
func (d *documents) putLock(c *driver.Change) (out driver.Outcome, wrote bool) {
	key := number(record.Key(c.Doc.ID))
	var found driver.Doc
	if was := d.locks[key]; was != nil {
		found.Rev, found.WriterID = was.Rev, was.WriterID
	}
	write, status := compare(c, &found)
	if !write && !d.blind {
		return driver.Outcome{Status: status}, false
	}
	d.leave(key)
	lock, _ := record.LockFrom(c.Doc) // made by a node
	d.locks[key] = &lock
	keys := d.keysOf(lock.Session)
	d.place[key] = int32(len(*keys))
	*keys = append(*keys, key)
	d.changed = append(d.changed, key)
	return driver.Outcome{Status: driver.Applied}, true
}

// keysOf is the list that the keys of a session are in.
func (d *documents) keysOf(name string) *[]int32 {
	if name == "" {
		return &d.free
	}
	return &d.sessions[d.number[name]].owned
}

// leave takes a key out of the list of its owner.
func (d *documents) leave(key int32) {
	if d.locks[key] == nil {
		return
	}
	keys := d.keysOf(d.locks[key].Session)
	at, last := d.place[key], len(*keys)-1
	(*keys)[at] = (*keys)[last]
	d.place[(*keys)[at]] = at
	*keys = (*keys)[:last]
}

// without lists the locks whose owner is none of these.
func (d *documents) without(alive []string) []*record.Lock {
	d.sweeps++
	for _, name := range alive {
		d.sessions[d.number[name]].spared = d.sweeps
	}
	var locks []*record.Lock
	add := func(keys []int32) {
		for _, key := range keys {
			locks = append(locks, d.locks[key])
		}
	}
	add(d.free)
	for i := range d.sessions {
		if s := &d.sessions[i]; len(s.owned) > 0 && s.spared != d.sweeps {
			add(s.owned)
		}
	}
	return locks
}
