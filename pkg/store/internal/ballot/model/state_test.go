package ballot_test

import (
	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/internal/ballot"
)

const (
	maxServers = 3
	maxClients = 3
	maxValues  = 32
	maxStrays  = 2
)

// value is an index of world.values. 0 is none: an absent document.
type value = int8

// world is a state. It is comparable, so that its value names it.
type world struct {
	servers [maxServers]server
	clients [maxClients]client
	stray   [maxStrays]packet
	removal removal
	budget  [faultKinds]int8

	// What follows is no part of the system: it is how promises are checked.
	values  [maxValues]written // each value that was ever proposed, by what it was made of
	gone    value              // the last of those that were lost with all disks
	base    value              // the tombstone whose records were removed: what an absent document goes on from
	latest  value              // the newest that any answer has shown
	refused uint16             // writers whose write was answered as refused
	writers int8
	names   int8 // of processes
	setUp   int8 // how often the quorum was set up again
}

// server is one of the stores.
type server struct {
	record ballot.Acceptor[value]
	has    bool // there is a record
	aged   bool // it was not changed for an hour
	lost   bool // its disk was lost, and with it the identity
	by     int8 // the operation that last began to re-admit it; 0: none
	floor  int64
}

// at is what the server shows of the document.
func (s *server) at() ballot.Acceptor[value] {
	if !s.has {
		return ballot.Acceptor[value]{Floor: s.floor}
	}
	return s.record
}

// written is one state of the document, with the state before it.
type written struct {
	is     ballot.Is
	before value
	rev    int8
	writer int8
}

// removal is somebody who removes a tombstone.
type removal struct {
	ballot.Removal[value]

	begun, raised bool
	intact        [maxServers]bool // the record is as it was shown
	value         value
}

// packet is a copy of a request that no one waits for any more.
type packet struct {
	request
	to int8 // 1 + server; 0: none
}

// request is what a client asks each server.
type request struct {
	kind         requestKind
	ballot, next ballot.Ballot
	value        value
}

type requestKind int8

const (
	look requestKind = iota
	prepare
	accept
)

// answer is a server's, on its way.
type answer struct {
	is, ok bool
	record ballot.Acceptor[value]
}

// client is a process.
type client struct {
	name int8 // of this start
	of   int8 // which of the set-ups it belongs to
	next int8 // of its script
	does doing

	op     operation
	since  value // the newest that any answer had shown when the operation began
	sent   bool  // it was proposed
	status driver.Status
	memory ballot.Memory[value]
	round  ballot.Round[value]
	read   ballot.Reading[value]
	seen   ballot.Accepted[value] // the highest that the read has shown
	heard  [maxServers]bool
	answer [maxServers]answer

	rev     int8 // of the document as last seen; 0: absent
	highest int8 // the largest revision seen
}

type doing int8

const (
	idle doing = iota
	reads
	rounds
	raises  // it re-admits a server, and raises the floors of the others
	joins   // it re-admits a server, and has it accept what the others have decided
	commits // it re-admits a server, and all else is done
)

// operation is one that a client performs.
type operation struct {
	kind   opKind
	ifRev  int8
	rev    int8
	writer int8

	server int8  // that is re-admitted
	known  bool  // the others have a record of the document
	floor  int64 // of the server that is re-admitted
}

type opKind int8

const (
	opRead   opKind = iota
	opList          // of live documents
	opPut           // create it, or replace it as last seen
	opCreate        // whatever was seen
	opDelete
	opReadmit // the server whose disk was lost
)

// fault is something that goes wrong, a bounded number of times.
type fault int8

const (
	slow     fault = iota // an answer takes time
	copies                // a copy of a request stays on its way
	retries               // a round is tried again
	abandons              // an operation ends unanswered
	crashes               // a process restarts
	wipes                 // a disk is lost
	setups                // all disks are lost, and the quorum is set up again
	forgets               // a process forgets a document
	hours
	removes
	restarts // a server does
	faultKinds
)

// setting is what does not change.
type setting struct {
	clients int
	scripts [maxClients][]opKind
	without rule
}

// change is the operation as a store is asked for it.
func (o operation) change() driver.Change {
	c := driver.Change{IfRev: int64(o.ifRev), Doc: driver.Doc{
		Rev: int64(o.rev), WriterID: driver.WriterID{Seq: int64(o.writer)},
	}}
	if o.kind == opDelete {
		c.Op = driver.Delete
	}
	return c
}

// holds is a value as a register holds it.
func (w *world) holds(v value) ballot.Value {
	x := w.values[v]
	return ballot.Value{Is: x.is, Doc: driver.Doc{Rev: int64(x.rev), WriterID: driver.WriterID{Seq: int64(x.writer)}}}
}

// intern is the value that a writer makes of another one. What is proposed twice is one value.
func (w *world) intern(x written) value {
	for i := value(1); i < maxValues; i++ {
		if w.values[i] == x {
			return i
		}
		if w.values[i] == (written{}) {
			w.values[i] = x
			return i
		}
	}
	panic("too many values")
}

// descends says whether v is old or was made of it.
func (w *world) descends(v, old value) bool {
	for v != old && v != 0 {
		v = w.values[v].before
	}
	return v == old
}
