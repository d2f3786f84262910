// Package ballot decides about documents that several independent servers keep together. Each document is a register
// of its own, and a majority of the servers decides what it holds. The algorithm is CASPaxos (Denis Rystsov, "CASPaxos:
// Replicated State Machines without logs", 2018).
//
// Everything here is a value: answers of servers in, decisions out. Nothing performs I/O, reads a clock, or starts a
// goroutine. Package store/quorum is the loop round it, and a model checks it (pkg/store/internal/ballot/model).
//
//   - [Acceptor] is what one server keeps of one document, with the rule by which it answers.
//   - [Memory] is what a process remembers of a document. [Round] is one attempt to change it.
//   - [Reading] is a read in one round trip, where the servers agree.
//   - [Judge] is how a change ends on what a register holds. Deleted documents leave tombstones.
//   - [Removal] says when a tombstone may go, and which ballots are refused from then on.
//   - [Merge] makes one list of those of several servers.
//   - [Counter] and [Clock] are sums and medians over servers.
//   - [Admission] says which servers count. One that lost its disk does not.
package ballot

import (
	"bytes"
	"cmp"
	"fmt"
	"hash/fnv"
	"slices"

	"github.com/shardctl/shardctl/pkg/store/driver"
)

// MaxServers is the largest number of servers. Beyond five, a write waits for more servers and gains little.
const MaxServers = 5

// Majority is how many of n servers decide.
func Majority(n int) int { return n/2 + 1 }

// Proposer names one start of one process. No other start ever has the same: two that share a name would propose two
// values under one ballot.
type Proposer [16]byte

// Ballot orders attempts to change one document. The zero Ballot is below all others, and no one proposes under it.
type Ballot struct {
	Counter  int64
	Proposer Proposer
}

// Compare orders ballots: by counter, and by proposer where counters are equal.
func (b Ballot) Compare(o Ballot) int {
	return cmp.Or(cmp.Compare(b.Counter, o.Counter), bytes.Compare(b.Proposer[:], o.Proposer[:]))
}

// Zero says whether b is of no proposer.
func (b Ballot) Zero() bool { return b == Ballot{} }

// after is the proposer's first ballot above a counter.
func after(counter int64, by Proposer) Ballot { return Ballot{Counter: counter + 1, Proposer: by} }

// Accepted is a value under the ballot by which a server accepted it. Under the zero Ballot nothing was.
type Accepted[V any] struct {
	Ballot Ballot
	Value  V
}

// Acceptor is what one server keeps of one document. All of it is durable before the server answers, promises too: a
// forgotten promise lets an older ballot win.
type Acceptor[V any] struct {
	// Floor is a counter: no ballot up to it is ever taken. A record that is made where none is begins with the floor
	// of its server. See [Removal].
	Floor    int64
	Promised Ballot // no ballot below it is taken any more
	Accepted Accepted[V]
}

// Prepare promises b, unless a higher ballot was promised or b is not above the floor. A promise may be repeated. The
// answer is the record that is returned: what was accepted, and by which ballot it refuses.
func (a Acceptor[V]) Prepare(b Ballot) (Acceptor[V], bool) {
	if !a.takes(b) {
		return a, false
	}
	a.Promised = b
	return a, true
}

// Accept takes v under b, and promises next with it, where next is above b. It may be repeated: what was accepted under
// b is not refused.
func (a Acceptor[V]) Accept(b Ballot, v V, next Ballot) (Acceptor[V], bool) {
	if a.Accepted.Ballot == b {
		return a, true
	}
	if !a.takes(b) {
		return a, false
	}
	a.Promised, a.Accepted = b, Accepted[V]{Ballot: b, Value: v}
	if next.Compare(b) > 0 {
		a.Promised = next
	}
	return a, true
}

func (a Acceptor[V]) takes(b Ballot) bool { return b.Counter > a.Floor && b.Compare(a.Promised) >= 0 }

// RefusedBelow is the counter that ballots must exceed here, from any proposer.
func (a Acceptor[V]) RefusedBelow() int64 { return max(a.Floor, a.Promised.Counter) }

// Is says what a register holds.
type Is uint8

// What a register holds.
const (
	Absent Is = iota
	Live
	Deleted // a tombstone: Doc has the revision that was deleted, and the writer ID of the deletion
)

// Value is what a register holds. Doc is zero where it is Absent.
type Value struct {
	Is  Is
	Doc driver.Doc
	// Before marks the writes before it, the newest first. By that a writer knows its write again whose round failed,
	// and on whose value others have built since.
	Before [remembered]Mark
}

// remembered is how many writes a register remembers before its own.
const remembered = 8

// Mark stands for a writer ID. 0 is none.
type Mark uint64

func markOf(w driver.WriterID) Mark {
	h := fnv.New64a()
	fmt.Fprintf(h, "%d %s", w.Seq, w.Session)
	return Mark(h.Sum64())
}

// after is what is marked in a value that takes the place of v.
func (v Value) after() (marks [remembered]Mark) {
	if v.Is != Absent {
		marks[0] = markOf(v.Doc.WriterID)
		copy(marks[1:], v.Before[:])
	}
	return marks
}

// Document is the document; nil where there is none.
func (v Value) Document() *driver.Doc {
	if v.Is != Live {
		return nil
	}
	return &v.Doc
}

// Judge says how a Put or Delete ends on what the register holds, and what is to be proposed. Where the change changes
// nothing, that is v itself: see [Round.Propose]. The outcome holds once the proposal is chosen.
//
// It is [driver.Judge] but for tombstones. A creation over one needs a higher revision than that of the deletion. Else a
// creation that was applied and then deleted would be applied again when its sender repeats it. It may have been
// written, so it is Overtaken. sent says that this very call has proposed the change before. Then a tombstone by its
// writer ID is its own deletion, and a write that is marked in the value was applied.
//
// A change without a writer ID is never known again.
func Judge(c driver.Change, v Value, sent bool) (out driver.Outcome, propose Value, changes bool) {
	sent = sent && c.Doc.WriterID != (driver.WriterID{})
	switch {
	case sent && slices.Contains(v.Before[:], markOf(c.Doc.WriterID)):
		return driver.Outcome{Status: driver.Applied}, v, false
	case v.Is == Deleted && c.Op == driver.Put && c.IfRev == 0 && c.Doc.Rev <= v.Doc.Rev:
		return driver.Outcome{Status: driver.Overtaken}, v, false
	case v.Is == Deleted && c.Op == driver.Delete && sent && c.Doc.WriterID == v.Doc.WriterID && c.IfRev == v.Doc.Rev:
		return driver.Outcome{Status: driver.Applied}, v, false
	}
	out, changes = driver.Judge(c, v.Document())
	switch {
	case !changes:
		return out, v, false
	case c.Op == driver.Delete:
		gone := driver.Doc{Kind: c.Doc.Kind, ID: c.Doc.ID, Rev: c.IfRev, WriterID: c.Doc.WriterID}
		return out, Value{Is: Deleted, Doc: gone, Before: v.after()}, true
	}
	return out, Value{Is: Live, Doc: c.Doc, Before: v.after()}, true
}
