// Package quorum keeps documents on three or five independent stores, so that any minority of them may be away.
// Each document is a register that a majority decides by CASPaxos (Rystsov, 2018). The stores may be of any kinds,
// mixed, as long as none of them forgets what it has acknowledged. They know nothing of each other.
//
// docs/protocol.md has the rules, what breaks without each, and the argument. Their decisions are package
// pkg/store/internal/quorum.
//
// # How a server keeps its part
//
// An acceptor is a document of the same kind and ID in that server's store, changed by compare-and-set. Its fields are
// those of the accepted document, so that indexes and notifications of the store serve. Promised and accepted ballot,
// and the document's own revision and writer ID, are in the text of its writer ID. A deleted document leaves a
// tombstone.
//
// Beside the documents of each kind a server keeps its identity and its floor. Both are read with the documents: a
// server that has lost its disk answers nothing that counts.
package quorum
