package ballot_test

import (
	"fmt"

	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/internal/ballot"
)

// step is a state in which something is about to happen.
type step struct {
	*setting
	*world

	broken  string
	outcome string // how an operation has ended
}

func (s *step) proposer(p int8) (name ballot.Proposer) {
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
	case actForget:
		if s.without == keepsCounters {
			c.memory = ballot.Memory[value]{}
		}
		c.memory.Forget()
	case actFloor:
		s.raiseOthers(a.p)
	case actJoin:
		s.join(a.p)
	case actCommit:
		s.commit(a.p)
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
	case actSetUp:
		s.setUpAnew()
	case actHour:
		s.hour()
	case actShow:
		s.show(a.s)
	case actRaise:
		s.raise()
	case actRemove:
		s.base = s.removal.value
		server.record, server.has, server.aged = ballot.Acceptor[value]{}, false, false
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
	case c.round.Phase == ballot.Preparing:
		return request{kind: prepare, ballot: c.round.Ballot}
	}
	next := c.round.Next
	if s.without == promisesNext {
		next = ballot.Ballot{}
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
	switch {
	case kind == opReadmit && s.lost() < 0:
		s.outcome = "no server has lost its disk"
		s.end(p)
	case kind == opReadmit:
		s.readmit(p, s.lost())
	case kind == opRead, kind == opList:
		c.does, c.read = reads, ballot.Read[value](maxServers)
	default:
		s.beginRound(p)
	}
}

func (s *step) beginRound(p int8) {
	c := &s.world.clients[p]
	c.does, c.read, c.seen = rounds, ballot.Reading[value]{}, ballot.Accepted[value]{}
	c.round = c.memory.Begin(s.proposer(p), maxServers)
	c.heard, c.answer = [maxServers]bool{}, [maxServers]answer{}
	s.judge(p)
}

func (s *step) endRound(p int8) {
	c := &s.world.clients[p]
	c.memory.End(c.round)
	c.round = ballot.Round[value]{}
}

// take hands an answer to its client.
func (s *step) take(p, from int8, got answer) {
	c := &s.world.clients[p]
	c.heard[from] = true
	if c.does == reads {
		s.takeRead(p, from, got)
		return
	}
	if c.round.Phase == ballot.Preparing {
		c.round.Promised(int(from), got.record, got.ok)
		s.judge(p)
		return
	}
	c.round.Took(int(from), got.record, got.ok)
	if c.round.Phase == ballot.Chosen {
		v, status := c.round.Value, c.status
		if c.op.kind == opReadmit {
			c.does = joins
			return
		}
		s.endRound(p)
		s.answer(p, v, status)
	}
}

func (s *step) takeRead(p, from int8, got answer) {
	c := &s.world.clients[p]
	c.read.Shown(int(from), got.record)
	c.memory.Saw(got.record)
	shown := got.record.Accepted
	live := s.values[shown.Value].is == ballot.Live
	if shown.Ballot.Compare(c.seen.Ballot) > 0 && (s.without != filtersLast || live) {
		c.seen = shown
	}
	enough := c.read.Answers() >= ballot.Majority(maxServers)
	weak := s.without == readsAgree || s.without == filtersLast && c.op.kind == opList && !c.seen.Ballot.Zero()
	if enough && weak {
		s.answer(p, c.seen.Value, driver.Applied)
		return
	}
	if agreed, ok := c.read.Agreed(); ok {
		s.answer(p, agreed.Value, driver.Applied)
	}
}

// judge decides what a round proposes.
func (s *step) judge(p int8) {
	c := &s.world.clients[p]
	if c.round.Phase != ballot.Judging {
		return
	}
	c.heard, c.answer = [maxServers]bool{}, [maxServers]answer{}
	found := c.round.Found.Value
	if c.op.kind == opRead || c.op.kind == opList || c.op.kind == opReadmit {
		c.status = driver.Applied
		c.round.Propose(found)
		return
	}
	held := s.holds(found)
	if s.without == risesOverTombstones && held.Is == ballot.Deleted {
		held = ballot.Value{}
	}
	if s.without == knowsOwn {
		held.Doc.WriterID.Seq = -1
	}
	out, made, changes := ballot.Judge(c.op.change(), held, c.sent)
	c.status = out.Status
	v := found
	if changes {
		v = s.intern(written{made.Is, s.from(found), int8(made.Doc.Rev), c.op.writer})
		c.sent = true
	}
	atOnce := s.without == acceptsRefusals && !changes && out.Status != driver.Applied
	if atOnce || s.without == acceptsOwn && !changes && out.Status == driver.Applied {
		s.endRound(p)
		s.answer(p, v, out.Status)
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

// answer ends an operation, and checks what it answers against all answers before.
func (s *step) answer(p int8, v value, status driver.Status) {
	c := &s.world.clients[p]
	held := s.values[v]
	c.rev, c.highest = 0, max(c.highest, held.rev)
	if held.is == ballot.Live {
		c.rev = held.rev
	}
	if status == driver.Refused {
		s.refused |= 1 << c.op.writer
	}
	s.outcome = statusNames[status]
	if c.op.kind <= opList {
		s.outcome = fmt.Sprintf("it reads revision %d", c.rev)
	}
	v = s.from(v)
	if !s.descends(v, c.since) {
		s.broken = "linearizability: what was answered before it began is not in it"
	}
	switch {
	case s.descends(v, s.latest):
		s.latest = v
	case !s.descends(s.latest, v):
		s.broken = "linearizability: an acknowledged write is lost"
	}
	if status == driver.Applied && c.op.kind > opList && s.values[v].writer != c.op.writer {
		s.broken = "linearizability: applied, and not what stands"
	}
	s.end(p)
	s.checkCourse()
}

// checkCourse looks at all writes that led to the newest value that was answered.
func (s *step) checkCourse() {
	wrote := uint16(0)
	for v := s.latest; v != 0; v = s.values[v].before {
		bit := uint16(1) << s.values[v].writer
		if wrote&bit != 0 {
			s.broken = "linearizability: one write is applied twice"
		}
		if s.refused&bit != 0 {
			s.broken = "linearizability: a write that was answered as refused is applied"
		}
		wrote |= bit
		if v <= s.gone {
			s.broken = "linearizability: a write is applied on what was lost with all disks"
		}
	}
}

func (s *step) end(p int8) {
	c := &s.world.clients[p]
	*c = client{name: c.name, of: c.of, next: c.next, memory: c.memory, rev: c.rev, highest: c.highest}
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
	*c = client{name: name, of: s.setUp, next: c.next}
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
			of = ballot.Majority(maxServers)
		}
		r.Removal, r.begun, r.value = ballot.Remove[value](of), true, record.Accepted.Value
	}
	r.Shown(int(at), record, s.values[record.Accepted.Value].is == ballot.Deleted)
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

// readmit begins to take a server back that lost its disk. It reserves the server, and looks at the others.
func (s *step) readmit(p, at int8) {
	c := &s.world.clients[p]
	c.op.server, s.servers[at].by = at, c.op.writer
	for i := range s.servers {
		if int8(i) != at {
			c.op.known = c.op.known || s.servers[i].has
			c.op.floor = max(c.op.floor, s.servers[i].at().RefusedBelow(), s.servers[i].floor)
		}
	}
	c.does = raises
	c.op.known = c.op.known && s.without != decidesAgain
	if s.without == jumps {
		c.op.floor++
	} else {
		c.op.floor += jump
	}
}

// raiseOthers raises the floors of the other servers, and has the document decided again above them.
func (s *step) raiseOthers(p int8) {
	c := &s.world.clients[p]
	for i := range s.servers {
		if int8(i) != c.op.server && s.without != floorsOthers {
			s.servers[i].floor = max(s.servers[i].floor, c.op.floor)
		}
	}
	if !c.op.known {
		c.does = commits
		return
	}
	c.memory.Forget()
	c.memory.Saw(ballot.Acceptor[value]{Floor: c.op.floor})
	s.beginRound(p)
}

// join has the server accept what the others have decided, as any acceptor does. Reads may count it from the commit on.
func (s *step) join(p int8) {
	c := &s.world.clients[p]
	server := &s.servers[c.op.server]
	if s.without != accepts && server.lost && (server.by == c.op.writer || s.without == reserves) {
		s.execute(c.op.server, s.request(p))
	}
	s.endRound(p)
	c.does = commits
}

// commit gives the server its identity, unless its disk was lost again, or another re-admission has begun since.
func (s *step) commit(p int8) {
	op := s.world.clients[p].op
	server := &s.servers[op.server]
	s.outcome = "another one has begun, or its disk was lost again"
	if server.lost && (server.by == op.writer || s.without == reserves) {
		server.lost, s.outcome = false, "it counts again"
		if s.without != floorsReadmitted {
			server.floor = max(server.floor, op.floor)
		}
	}
	s.end(p)
}

// setUpAnew is the loss of all disks, and a set-up. Requests that are on their way find no record that they know.
func (s *step) setUpAnew() {
	s.servers, s.stray, s.removal = [maxServers]server{}, [maxStrays]packet{}, removal{}
	s.latest, s.base = 0, 0
	s.setUp++
	for s.gone+1 < maxValues && s.values[s.gone+1] != (written{}) {
		s.gone++
	}
}

// jump stands for [ballot.Jump]: no process tries so often here.
const jump = 64
