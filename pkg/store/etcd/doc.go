// Package etcd keeps the documents of package elect in etcd: a [store.Store] for production.
//
// # What it needs
//
// etcd 3.5.8 or newer, a single member or several, with the default --max-txn-ops of 128 or more. The user needs to
// read and write the keys below PREFIX/CLUSTER/ and nothing else. etcd keeps every revision of every key until somebody
// compacts it, so it must run with --auto-compaction-retention. docs/stores/etcd.md says how to set it up.
//
// # What it keeps
//
// One key for each document, PREFIX/CLUSTER/KIND/ID, whose value is JSON for people to read:
//
//	shardctl/default/lock/topics/topic-001 = {"rev": 1790000000000, "writer": {"session": "…", "seq": 7}, …}
//
// Keys below PREFIX/CLUSTER/.index/ find documents by owner, group, expiry and in reverse order; their values are
// empty. PREFIX/CLUSTER/.note/ has a fixed number of keys: a change of which watchers are notified overwrites one of
// them. The version of this layout is under .schema, what revisions are counted from under .floor.
//
// A document that cannot be read counts as absent and is logged; only the number of all documents counts it. One that
// is deleted with etcdctl is gone; lists take away entries of it when they meet them. One that is edited with etcdctl
// may be missing in lists until a write changes what it is listed by, since no one has adapted its index.
//
// # How it keeps the promises
//
// A change is a transaction: if the key's modification revision is as it was read, then the document and its index are
// written, else the document is returned. etcd answers after a majority has it on disk. A modification revision never
// comes back, so neither a deletion nor a late copy of a request can confuse it. Several changes are nested
// transactions of one request, each with an outcome of its own. Reads and lists are linearizable, and a list of several
// pages is one snapshot. The revisions of documents that were read or written are remembered, within bounds; for one
// that is not known the same request reads it, and a second one writes.
//
// An answer that was lost leaves the outcome Unknown. A repeat finds its own writer ID.
//
// # Revisions and time
//
// etcd shows no clock. [store.Reply.Now] is the wall clock of this process. [store.Reply.Floor] is etcd's own revision,
// which every write raises, above a base that is kept in the store. It is read in the same transaction as the
// documents.
//
// # What it does not use
//
// Leases of etcd, and the locks and elections that its client makes of them. An etcd that was away for longer than a
// lease would end the ownership of all tasks at once. Here only the time of this package's own leases does.
//
// # Connections
//
// A store has one connection, to one member at a time, over which go all calls and the one watch that its watchers
// share. When that member does not answer, it goes on to the next one that the URI names.
package etcd
