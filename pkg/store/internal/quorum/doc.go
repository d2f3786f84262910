// Package quorum decides about documents that several independent servers keep together. Each document is a register
// of its own, and a majority of the servers decides what it holds. The algorithm is CASPaxos (Denis Rystsov, "CASPaxos:
// Replicated State Machines without logs", 2018).
//
// Everything here is a value: answers of servers in, decisions out. Nothing performs I/O, reads a clock, or starts a
// goroutine. Package store/quorum is the loop round it, and a model checks it (pkg/store/internal/quorum/model).
//
//   - [Acceptor] is what one server keeps of one document, with the rule by which it answers.
//   - [Memory] is what a process remembers of a document. [Round] is one attempt to change it.
//   - [Reading] is a read in one round trip, where the servers agree.
//   - [Judge] is how a change ends on what a register holds. Deleted documents leave tombstones.
//   - [Removal] says when a tombstone may go, and which ballots are refused from then on.
//   - [Merge] makes one list of those of several servers.
//   - [Counter] and [Clock] are sums and medians over servers.
//   - [Admission] says which servers count. One that lost its disk does not.
package quorum
