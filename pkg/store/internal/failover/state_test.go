package failover_test

// The family of scenarios for a store that forgets: several nodes, asynchronous replication, and failovers that
// promote a node which misses a suffix of acknowledged writes. Processes, sessions and the lock are abstract here, so
// that the nodes may be many. Time is counted in thirds of T, and a run is gone after two of them.

const (
	leaseTicks  = 3 // T: what waits for others waits so long
	runTicks    = 2 // X: what runs without a good heartbeat is gone then
	maxNodes    = 5
	maxSessions = 3
	maxClients  = 2
)

// identity is what a node says of itself: its lineage, which no other node and no restart shares, and how often a
// replica has begun to follow it, again or where it had left off. The zero value is no one's.
type identity struct{ lineage, full, partial int8 }

// forgetful is a state. It holds nothing but bytes, so that its memory names it.
type forgetful struct {
	nodes   [maxNodes]dbNode
	clients [maxClients]client
	visitor visitor
	stray   message // a copy that its sender waits for no longer
	clock   [leaseTicks]int8
	highest int8 // the largest token of a start so far
	budget  [faultKinds]int8
}

// dbNode is one server of the store.
type dbNode struct {
	master  bool
	follows int8 // 1 + the node whose writes it takes; 0: none
	stream  int8 // the lineage that its data comes from
	id      identity
	data    dataset
}

// dataset is what a node holds.
type dataset struct {
	gate     identity // who may be claimed at
	under    identity // where processes have waited for it
	waited   int8     // and for how many ticks good replies have come there
	high     int8     // revisions of ownership must exceed it
	met      uint8    // all nodes that a script has seen, the master among them
	owner    int8     // of the lock: 1 + a session; 0: none
	rev      int8     // of the lock
	sessions [maxSessions]sessionDoc
}

type sessionDoc struct {
	is        docState
	heartbeat int8
}

type docState int8

const (
	docAbsent docState = iota
	docAlive
	docDead
)

// client is a process with a session: its adapter, and what package elect keeps.
type client struct {
	on      bool
	lost    bool // its session was ended by others
	leaving bool // the run has ended in order: the lock is to be released
	session int8

	id    identity // expected of the master
	since int8     // 1 + ticks for which good replies have come under id, as far as is known; 0: none has
	asked int8     // 1 + ticks since the look under way was sent; only where gates count from there

	course  int8 // the lineage of what is known; 0: nothing is
	audit   bool // what is held was not compared with it yet
	heard   int8 // the master's clock as last shown
	cached  bool // owner and rev are known
	owner   int8
	rev     int8
	peers   [maxSessions]sighted
	pending bool // a heartbeat was sent and not answered
	firstAt int8 // ticks since its first copy was sent

	heartbeat int8 // as last acknowledged; 0: none
	renewed   int8 // ticks since it was sent
	mine      bool // the lock was acknowledged as this session's
	lockRev   int8 // its revision then
	runs      bool
	ops       [2]operation
}

// visitor is all the processes that come and go while others wait: each knows an identity for a while.
type visitor struct {
	id    identity
	since int8 // as a client's
}

// sighted is another session as a client knows it.
type sighted struct {
	known, dead    bool
	heartbeat, age int8
}

// What a client has under way at most: one operation of its session, and one of the lock or of another session.
const (
	ofSession = 0
	ofLock    = 1
)

type msgKind int8

const (
	noMessage msgKind = iota
	renew             // cond: the heartbeat before
	inspect           // a linearizable read of the own session and the lock
	bury              // mark session other dead. cond: its heartbeat
	own               // the lock: cond → next
	free
	look // of the visitor
)

// message is a copy of a script on its way.
type message struct {
	kind       msgKind
	from       int8
	session    int8
	other      int8
	cond, next int8
	may        bool // good replies have come for T, as far as the sender knows
	waited     int8 // for how many ticks, likewise
	id         identity
}

type result int8

const (
	nothing result = iota
	applied
	refused
	closed // the gate is
	shown
)

// operation is a message with what is known of its answer.
type operation struct {
	message
	at    int8 // 1 + the node where it was executed; 0: nowhere yet
	good  bool // and the reply was, and is on its way
	wrote bool // the script wrote something, so WAIT has to wait for it
	shown int8 // what the second look has found that processes have waited
	age   int8 // ticks since it was sent; only where they count from there
	res   result
	found sessionDoc
	owner int8
	rev   int8
}

// lockRevs calls do for every revision of the lock, token and clock of the state.
func (s *forgetful) lockRevs(do func(*int8)) {
	for i := range s.nodes {
		do(&s.nodes[i].data.rev)
		do(&s.nodes[i].data.high)
	}
	of := func(m *message) {
		if m.kind == own || m.kind == free {
			do(&m.cond)
			do(&m.next)
		}
	}
	for i := range s.clients {
		c := &s.clients[i]
		do(&c.heard)
		do(&c.rev)
		do(&c.lockRev)
		for j := range c.ops {
			of(&c.ops[j].message)
			do(&c.ops[j].rev)
		}
	}
	of(&s.stray)
	for i := range s.clock {
		do(&s.clock[i])
	}
	do(&s.highest)
}

// heartbeats calls do for every heartbeat of a session in the state.
func (s *forgetful) heartbeats(session int8, do func(*int8)) {
	for i := range s.nodes {
		do(&s.nodes[i].data.sessions[session].heartbeat)
	}
	of := func(m *message) {
		if m.kind == renew && m.session == session || m.kind == bury && m.other == session {
			do(&m.cond)
		}
	}
	for i := range s.clients {
		c := &s.clients[i]
		if c.session == session {
			do(&c.heartbeat)
		}
		do(&c.peers[session].heartbeat)
		for j := range c.ops {
			of(&c.ops[j].message)
			if c.ops[j].session == session {
				do(&c.ops[j].found.heartbeat)
			}
		}
	}
	of(&s.stray)
}

// renumber keeps the order of numbers, which are equal, and up to gap how far they are apart. 0 stays 0.
func renumber(gap int8, each func(do func(*int8))) {
	var to [128]int8
	largest := int8(0)
	each(func(p *int8) {
		to[*p] = 1
		largest = max(largest, *p)
	})
	last, is := int8(0), int8(0)
	for v := int8(1); v <= largest; v++ {
		if to[v] == 1 {
			is += min(v-last, gap)
			to[v], last = is, v
		}
	}
	if last == is {
		return
	}
	to[0] = 0
	each(func(p *int8) { *p = to[*p] })
}

// normal gives states one form that differ in nothing that counts.
func (s *forgetful) normal() {
	for p := range s.clients {
		c := &s.clients[p]
		if c.lost || !c.on {
			c.id, c.since, c.course, c.cached, c.owner, c.rev, c.peers = identity{}, 0, 0, false, 0, 0,
				[maxSessions]sighted{}
			c.lockRev, c.heartbeat = 0, 0
		}
		if !c.mine && !c.runs {
			c.lockRev = 0
		}
		for i := range c.peers {
			if c.owner != int8(i)+1 && !c.peers[i].dead {
				c.peers[i] = sighted{}
			}
		}
	}
	renumber(2, s.lockRevs)
	for session := range int8(maxSessions) {
		renumber(1, func(do func(*int8)) { s.heartbeats(session, do) })
	}
}

// sameLineage compares without the sync counters: what a client calls the lineage.
func (i identity) sameLineage(o identity) bool { return i.lineage == o.lineage }
