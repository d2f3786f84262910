package quorum_test

import (
	"fmt"

	"github.com/shardctl/shardctl/pkg/elect/internal/quorum"
	"github.com/shardctl/shardctl/pkg/elect/store"
)

// step is a state in which something is about to happen.
type step struct {
	*setting
	*world

	broken string
	told   string // how an operation has ended
}

func (s *step) proposer(p int8) (name quorum.Proposer) {
	name[0] = byte(s.world.clients[p].name)
	return name
}

// do lets an action happen.
func (s *step) do(a action) {
	if f, ok := costs[a.kind]; ok {
		s.budget[f]--
	}
	c := &s.world.clients[a.p]
	switch a.kind {
	case actBegin:
		s.begin(a.p)
	case actAsk:
		s.take(a.p, a.s, s.execute(a.s, s.request(a.p)))
	case actAskSlowly:
		c.answer[a.s] = s.execute(a.s, s.request(a.p))
	case actAnswer:
		got := c.answer[a.s]
		c.answer[a.s] = answer{}
		s.take(a.p, a.s, got)
	case actCopy:
		s.stray[s.free()] = packet{s.request(a.p), a.s + 1}
	case actStray:
		late := s.stray[a.s]
		s.stray[a.s] = packet{}
		s.execute(late.to-1, late.request)
	case actRound:
		s.beginRound(a.p)
	case actRetry:
		s.endRound(a.p)
		s.beginRound(a.p)
	case actAbandon:
		s.abandon(a.p)
	case actCrash:
		s.crash(a.p)
	default:
		s.doServer(a)
	}
}

func (s *step) doServer(a action) {
	server := &s.servers[a.s]
	switch a.kind {
	case actRestart:
		server.record.Promised = server.record.Accepted.Ballot
	case actWipe:
		*server = emptyDisk(s.without != hasIdentity)
		s.touch(a.s)
	case actReadmit:
		s.readmit(a.s)
	case actHour:
		s.hour()
	case actShow:
		s.show(a.s)
	case actRaise:
		s.raise()
	case actRemove:
		s.base = s.removal.value
		server.record, server.has, server.aged = quorum.Acceptor[value]{}, false, false
		s.touch(a.s)
	default:
	}
}

func emptyDisk(lost bool) server { return server{lost: lost} }

func (s *step) touch(server int8) { s.removal.intact[server] = false }

// execute lets a server answer.
func (s *step) execute(to int8, r request) answer {
	server := &s.servers[to]
	record, ok := server.at(), true
	switch r.kind {
	case prepare:
		record, ok = record.Prepare(r.ballot)
	case accept:
		record, ok = record.Accept(r.ballot, r.value, r.next)
	case look:
		return answer{true, ok, record}
	}
	if ok {
		if record.Accepted.Ballot != server.record.Accepted.Ballot {
			server.aged = false
		}
		if record != server.record {
			s.touch(to)
		}
		server.record, server.has = record, true
	}
	return answer{true, ok, record}
}

// request is what a client asks now.
func (s *step) request(p int8) request {
	c := &s.world.clients[p]
	switch {
	case c.does == reads:
		return request{kind: look}
	case c.round.Phase == quorum.Preparing:
		return request{kind: prepare, ballot: c.round.Ballot}
	}
	next := c.round.Next
	if s.without == promisesNext {
		next = quorum.Ballot{}
	}
	return request{kind: accept, ballot: c.round.Ballot, next: next, value: c.round.Value}
}

// begin begins the next operation of a script.
func (s *step) begin(p int8) {
	c := &s.world.clients[p]
	kind := s.scripts[p][c.next]
	c.next++
	s.writers++
	c.op = operation{kind: kind, writer: s.writers, ifRev: c.rev}
	c.since, c.sent = s.latest, false
	if kind == opCreate {
		c.op.ifRev = 0
	}
	if kind == opPut || kind == opCreate {
		c.op.rev = c.highest + 1
	}
	if kind == opDelete && c.rev == 0 {
		c.op.ifRev = 1
	}
	if kind == opRead || kind == opList {
		c.does, c.read = reads, quorum.Read[value](maxServers)
		return
	}
	s.beginRound(p)
}

func (s *step) beginRound(p int8) {
	c := &s.world.clients[p]
	c.does, c.read, c.seen = rounds, quorum.Reading[value]{}, quorum.Accepted[value]{}
	c.round = c.memory.Begin(s.proposer(p), maxServers)
	c.heard, c.answer = [maxServers]bool{}, [maxServers]answer{}
	s.judge(p)
}

func (s *step) endRound(p int8) {
	c := &s.world.clients[p]
	c.memory.End(c.round)
	c.round = quorum.Round[value]{}
}

// take hands an answer to its client.
func (s *step) take(p, from int8, got answer) {
	c := &s.world.clients[p]
	c.heard[from] = true
	if c.does == reads {
		s.takeRead(p, from, got)
		return
	}
	if c.round.Phase == quorum.Preparing {
		c.round.Promised(int(from), got.record, got.ok)
		s.judge(p)
		return
	}
	c.round.Took(int(from), got.record, got.ok)
	if c.round.Phase == quorum.Chosen {
		v, status := c.round.Value, c.status
		s.endRound(p)
		s.tell(p, v, status)
	}
}

func (s *step) takeRead(p, from int8, got answer) {
	c := &s.world.clients[p]
	c.read.Shown(int(from), got.record)
	c.memory.Saw(got.record)
	shown := got.record.Accepted
	live := s.values[shown.Value].is == quorum.Live
	if shown.Ballot.Compare(c.seen.Ballot) > 0 && (s.without != filtersLast || live) {
		c.seen = shown
	}
	enough := c.read.Answers() >= quorum.Majority(maxServers)
	weak := s.without == readsAgree || s.without == filtersLast && c.op.kind == opList && !c.seen.Ballot.Zero()
	if enough && weak {
		s.tell(p, c.seen.Value, store.Applied)
		return
	}
	if agreed, ok := c.read.Agreed(); ok {
		s.tell(p, agreed.Value, store.Applied)
	}
}

// judge decides what a round proposes.
func (s *step) judge(p int8) {
	c := &s.world.clients[p]
	if c.round.Phase != quorum.Judging {
		return
	}
	c.heard, c.answer = [maxServers]bool{}, [maxServers]answer{}
	found := c.round.Found.Value
	if c.op.kind == opRead || c.op.kind == opList {
		c.status = store.Applied
		c.round.Propose(found)
		return
	}
	held := s.holds(found)
	if s.without == risesOverTombstones && held.Is == quorum.Deleted {
		held = quorum.Value{}
	}
	if s.without == knowsOwn {
		held.Doc.WriterID.Seq = -1
	}
	out, made, changes := quorum.Judge(c.op.change(), held, c.sent)
	c.status = out.Status
	v := found
	if changes {
		v = s.intern(written{made.Is, s.from(found), int8(made.Doc.Rev), c.op.writer})
		c.sent = true
	}
	atOnce := s.without == acceptsRefusals && !changes && out.Status != store.Applied
	if atOnce || s.without == acceptsOwn && !changes && out.Status == store.Applied {
		s.endRound(p)
		s.tell(p, v, out.Status)
		return
	}
	c.round.Propose(v)
}

// from is what a value was made of: an absent document goes on from the tombstone that was removed.
func (s *step) from(found value) value {
	if found == 0 {
		return s.base
	}
	return found
}

// tell ends an operation, and checks what it tells against all that was told before.
func (s *step) tell(p int8, v value, status store.Status) {
	c := &s.world.clients[p]
	held := s.values[v]
	c.rev, c.highest = 0, max(c.highest, held.rev)
	if held.is == quorum.Live {
		c.rev = held.rev
	}
	if status == store.Refused {
		s.refused |= 1 << c.op.writer
	}
	s.told = statusNames[status]
	if c.op.kind <= opList {
		s.told = fmt.Sprintf("it reads revision %d", c.rev)
	}
	v = s.from(v)
	if !s.descends(v, c.since) {
		s.broken = "linearizability: what was told before it began is not in it"
	}
	switch {
	case s.descends(v, s.latest):
		s.latest = v
	case !s.descends(s.latest, v):
		s.broken = "linearizability: an acknowledged write is lost"
	}
	if status == store.Applied && c.op.kind > opList && s.values[v].writer != c.op.writer {
		s.broken = "linearizability: applied, and not what stands"
	}
	s.end(p)
	s.checkCourse()
}

// checkCourse looks at all writes that led to the newest value that was told.
func (s *step) checkCourse() {
	wrote := uint16(0)
	for v := s.latest; v != 0; v = s.values[v].before {
		bit := uint16(1) << s.values[v].writer
		if wrote&bit != 0 {
			s.broken = "linearizability: one write is applied twice"
		}
		if s.refused&bit != 0 {
			s.broken = "linearizability: a write that was told to be refused is applied"
		}
		wrote |= bit
	}
}

func (s *step) end(p int8) {
	c := &s.world.clients[p]
	*c = client{name: c.name, next: c.next, memory: c.memory, rev: c.rev, highest: c.highest}
}

func (s *step) abandon(p int8) {
	c := &s.world.clients[p]
	if c.does == rounds {
		s.endRound(p)
	}
	c.memory.Forget()
	s.end(p)
}

func (s *step) crash(p int8) {
	c := &s.world.clients[p]
	name := c.name
	if s.without != freshNames {
		s.names++
		name = s.names
	}
	*c = client{name: name, next: c.next}
}

func (s *step) free() int {
	for i := range s.stray {
		if s.stray[i].to == 0 {
			return i
		}
	}
	return -1
}

func (s *step) hour() {
	for p := range s.world.clients {
		if c := &s.world.clients[p]; c.does != idle && s.without != givesUp {
			s.abandon(int8(p))
		}
	}
	for i := range s.servers {
		s.servers[i].aged = s.servers[i].has
	}
}

// show lets who removes a tombstone look at a server.
func (s *step) show(at int8) {
	r := &s.removal
	record := s.servers[at].at()
	if !r.begun {
		of := maxServers
		if s.without == removesAtAll {
			of = quorum.Majority(maxServers)
		}
		r.Removal, r.begun, r.value = quorum.Remove[value](of), true, record.Accepted.Value
	}
	r.Shown(int(at), record, s.values[record.Accepted.Value].is == quorum.Deleted)
	r.intact[at] = true
}

func (s *step) raise() {
	floor, _ := s.removal.Floor()
	s.removal.raised = true
	if s.without == floorOfPromises {
		floor = 0
		for i := range s.servers {
			floor = max(floor, s.servers[i].record.Accepted.Ballot.Counter)
		}
	}
	for i := range s.servers {
		if s.without != raisesFloor {
			s.servers[i].floor = max(s.servers[i].floor, floor)
		}
	}
}

// readmit takes a server back that lost its disk. What one of the others knows of is decided again by all of them.
func (s *step) readmit(at int8) {
	back := &s.servers[at]
	back.lost = false
	var highest int64
	best, known := quorum.Accepted[value]{}, false
	for i := range s.servers {
		if int8(i) == at {
			continue
		}
		other := s.servers[i].at()
		known = known || s.servers[i].has
		highest = max(highest, other.RefusedBelow())
		if other.Accepted.Ballot.Compare(best.Ballot) >= 0 {
			best = other.Accepted
		}
		if s.without == decidesAgain {
			back.record, back.has = other, s.servers[i].has
		}
	}
	if s.without == decidesAgain {
		return
	}
	ballot := quorum.Ballot{Counter: highest + jump, Proposer: quorum.Proposer{0xff}}
	if s.without == jumps {
		ballot.Counter = highest + 1
	}
	for i := range s.servers {
		if int8(i) != at && known && (s.servers[i].has || s.without != asksAllOthers) {
			s.execute(int8(i), request{accept, ballot, quorum.Ballot{}, best.Value})
			back.record, back.has = s.servers[i].record, true
		}
	}
	if s.without != floorsReadmitted {
		back.floor = ballot.Counter
	}
}

// jump stands for [quorum.Jump]: no process tries so often here.
const jump = 64
