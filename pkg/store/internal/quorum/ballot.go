package quorum

import (
	"bytes"
	"cmp"
)

// MaxServers is the largest number of servers. Beyond five, a write waits for more servers and gains little.
const MaxServers = 5

// Majority is how many of n servers decide.
func Majority(n int) int { return n/2 + 1 }

// Proposer names one start of one process. No other start ever has the same: two that share a name would propose two
// values under one ballot.
type Proposer [16]byte

// Ballot orders attempts to change one document. The zero Ballot is below all others, and nobody proposes under it.
type Ballot struct {
	Counter  int64
	Proposer Proposer
}

// Compare orders ballots: by counter, and by proposer where counters are equal.
func (b Ballot) Compare(o Ballot) int {
	return cmp.Or(cmp.Compare(b.Counter, o.Counter), bytes.Compare(b.Proposer[:], o.Proposer[:]))
}

// Zero says whether b is nobody's.
func (b Ballot) Zero() bool { return b == Ballot{} }

// after is the proposer's first ballot above a counter.
func after(counter int64, by Proposer) Ballot { return Ballot{Counter: counter + 1, Proposer: by} }

// Accepted is a value under the ballot by which a server accepted it. Under the zero Ballot nothing was.
type Accepted[V any] struct {
	Ballot Ballot
	Value  V
}
