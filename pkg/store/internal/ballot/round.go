package ballot

import (
	"math/bits"
	"slices"
)

// servers is a set of servers, by their index.
type servers uint8

func (s servers) len() int              { return bits.OnesCount8(uint8(s)) }
func (s servers) with(i int) servers    { return s | 1<<i }
func (s servers) without(i int) servers { return s &^ (1 << i) }
func (s servers) has(i int) bool        { return s&(1<<i) != 0 }

// Phase is how far a [Round] is.
type Phase uint8

// The phases of a round.
const (
	Preparing Phase = iota // ask the servers to promise the ballot
	Judging                // a majority promised: the value to propose is asked for
	Accepting              // ask them to accept the value
	Chosen                 // a majority accepted it: it stands
	Failed                 // so many refused that no majority is left: try again above
)

// Round is one attempt to change one document. Answers may come in any order, twice, or never. One of another phase or
// of another round must not be handed to it.
type Round[V any] struct {
	Phase  Phase
	Ballot Ballot
	// Next is promised with the acceptance. A majority that accepted and promised lets the next change begin there.
	Next  Ballot
	Found Accepted[V] // Judging and later: what the register held, or its highest proposal
	Value V           // Accepting and later: what is proposed

	of       int8
	yes, no  servers
	above    int64 // the highest counter by which a server refused
	prepared bool  // by this round, not by the one before it
}

// Prepared says whether the round asked for promises. Else it goes on from the change before it, and what it found is
// what that change wrote.
func (r *Round[V]) Prepared() bool { return r.prepared }

// Promised takes a server's answer to Prepare.
func (r *Round[V]) Promised(server int, found Acceptor[V], ok bool) {
	if r.Phase != Preparing {
		return
	}
	if r.answered(server, found, ok) && found.Accepted.Ballot.Compare(r.Found.Ballot) > 0 {
		r.Found = found.Accepted
	}
	if r.yes.len() >= Majority(int(r.of)) {
		r.Phase = Judging
	}
}

// Propose sets the value that the servers are to accept: what the change makes of Found, or Found itself where the
// change is refused. A refusal too is only returned when a majority has accepted: what else lies on a minority could be
// chosen later, and apply a change that was called refused.
func (r *Round[V]) Propose(v V) {
	if r.Phase == Judging {
		r.Phase, r.Value, r.yes, r.no = Accepting, v, 0, 0
	}
}

// Took takes a server's answer to Accept.
func (r *Round[V]) Took(server int, found Acceptor[V], ok bool) {
	if r.Phase != Accepting {
		return
	}
	r.answered(server, found, ok)
	if r.yes.len() >= Majority(int(r.of)) {
		r.Phase = Chosen
	}
}

func (r *Round[V]) answered(server int, found Acceptor[V], ok bool) bool {
	if ok {
		r.yes, r.no = r.yes.with(server), r.no.without(server)
		return true
	}
	r.above = max(r.above, found.RefusedBelow())
	if !r.yes.has(server) {
		r.no = r.no.with(server)
	}
	if int(r.of)-r.no.len() < Majority(int(r.of)) {
		r.Phase = Failed
	}
	return false
}

// Memory is what a process remembers of a document between its changes. There is one for each document, and one change
// under way with it.
type Memory[V any] struct {
	counter int64 // the highest that was used or seen
	next    Ballot
	value   V
}

// Begin begins a round by this proposer among so many servers. Where the change before it was chosen, one majority
// accepted that value and promised this ballot in one step. So nothing came between, and the round begins with Judging.
// What was remembered is used once.
func (m *Memory[V]) Begin(by Proposer, of int) Round[V] {
	r := Round[V]{Ballot: m.next, of: int8(of)} //nolint:gosec // at most MaxServers
	if r.Ballot.Zero() {
		r.Ballot, r.prepared = after(m.counter, by), true
	} else {
		r.Phase, r.Found.Value = Judging, m.value
	}
	r.Next = after(r.Ballot.Counter, by)
	*m = Memory[V]{counter: r.Next.Counter}
	return r
}

// End remembers what a round has shown. Only after Chosen may the next change go on from it: with a minority, a write
// that was chosen elsewhere would be written over.
func (m *Memory[V]) End(r Round[V]) {
	m.counter = max(m.counter, r.above)
	if r.Phase == Chosen {
		m.next, m.value = r.Next, r.Value
	}
}

// Forget drops what a next change could go on from. It is called on any doubt, and when a read shows another value.
func (m *Memory[V]) Forget() { *m = Memory[V]{counter: m.counter} }

// Used is the largest counter of a ballot that may have been used. Who forgets a document keeps it, and begins above
// it: two values under one ballot would both be taken for the chosen one.
func (m *Memory[V]) Used() int64 { return m.counter }

// Saw notes by which ballot a server refuses, as a read has shown it. So the next round begins above.
func (m *Memory[V]) Saw(a Acceptor[V]) { m.counter = max(m.counter, a.RefusedBelow()) }

// Page is one server's answer to a list: ids in order, and whether more would have followed.
type Page struct {
	IDs []string
	Cut bool
}

// Merge is the union of what a majority of servers listed, in order and without doubles. Each document is then read
// from a majority, and only what is read so is filtered, counted and cut: a server that is behind still lists what the
// newer copies of others exclude.
//
// Where a server's page was cut, nothing is known beyond its last id. whole is false then, and the next page begins
// after the last id that is returned; there is at least one.
func Merge(pages []Page, reverse bool) (ids []string, whole bool) {
	order := func(a, b string) int {
		switch {
		case a == b:
			return 0
		case (a < b) != reverse:
			return -1
		}
		return 1
	}
	whole = true
	var bound string
	for _, p := range pages {
		ids = append(ids, p.IDs...)
		if !p.Cut || len(p.IDs) == 0 {
			continue
		}
		if last := p.IDs[len(p.IDs)-1]; whole || order(last, bound) < 0 {
			whole, bound = false, last
		}
	}
	slices.SortFunc(ids, order)
	ids = slices.Compact(ids)
	if !whole {
		ids = slices.DeleteFunc(ids, func(id string) bool { return order(id, bound) > 0 })
	}
	return ids, whole
}

// Reading is a read of one document in one round trip. It never prepares: a reader that does breaks the round trip of
// everyone who writes.
type Reading[V any] struct {
	shown [MaxServers]Accepted[V]
	from  servers
	of    int8
}

// Read begins a read among so many servers.
func Read[V any](of int) Reading[V] { return Reading[V]{of: int8(of)} } //nolint:gosec // at most MaxServers

// Shown takes a server's answer. A record that is absent shows the zero value.
func (r *Reading[V]) Shown(server int, a Acceptor[V]) {
	r.shown[server], r.from = a.Accepted, r.from.with(server)
}

// Answers is how many servers have answered.
func (r *Reading[V]) Answers() int { return r.from.len() }

// Agreed is what the register holds where a majority shows one accepted ballot. That value stands: had a later one been
// chosen before the read began, one of these servers would show it. Else look again, twice at most and after a pause
// with jitter: a write under way settles by then. After that a full round that proposes what it finds decides.
func (r *Reading[V]) Agreed() (Accepted[V], bool) {
	for i := range int(r.of) {
		same := 0
		for j := range int(r.of) {
			if r.from.has(i) && r.from.has(j) && r.shown[i].Ballot == r.shown[j].Ballot {
				same++
			}
		}
		if same >= Majority(int(r.of)) {
			return r.shown[i], true
		}
	}
	return Accepted[V]{}, false
}
