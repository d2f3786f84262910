// Package mongo keeps the documents of package elect in MongoDB: a [store.Store] for production.
//
// # What it needs
//
// MongoDB 5.0 or newer; a replica set, so that a majority can hold a write and replicas can be woken by a change
// stream. On a standalone server it works by polling and says so (see [Store.Problems]); an arbiter in the set gets a
// warning. On a sharded cluster the collection of locks must be unsharded or sharded by _id alone. Only _id is unique,
// and two shards could each hold a lock of one key. The user needs the role readWrite on the database, or less:
// docs/stores/mongodb.md has the least. Open asks the server what the user may do, and refuses with all that is
// missing. It makes only those collections and indexes that are not there.
//
// # What it keeps
//
// One collection for each kind of document, named after the cluster: default.locks, default.sessions and so on, and
// default.schema with the version of this layout. Documents are meant to be read by people:
//
//	{_id: "topics/topic-001", rev: 1790000000000, writer: {session: "…", seq: 7}, group: "topics", session: "…",
//	 suspended: false, body: "{…}"}
//
// A document that somebody edited is read as far as it goes, or left out and logged when it has no usable _id or rev.
// It never fails a read of the others.
//
// # How it keeps the promises
//
// Every change is one insertOne, replaceOne, updateOne or deleteOne with {_id, rev} as its condition, acknowledged by a
// majority and journalled. Nothing is upserted except a group's counter. Lists are majority reads from the primary,
// Read is linearizable. Up to 200 changes go out as one unordered batch. MongoDB reports how many of them matched, not
// which. So when not all did they are read back, linearizably, and distinguished by their writer IDs. A refusal alone
// may come from a primary that was deposed and does not know.
//
// An answer that was lost is first asked for again by the driver (retryable writes), then by a linearizable read of the
// document. Its writer ID says whether the write happened, its revision whether it still can. What remains is Unknown.
//
// Sessions, and with them the heartbeats, have a client with connections of its own: claims in bulk cannot starve them.
//
// # Time
//
// Reply.Now is the primary's clock in milliseconds. It is sampled when the store is opened and, at no cost, by each
// read of sessions. In between it goes on with the local monotonic clock. So it is off by half a round trip, and by
// what two clocks drift apart between samples. After a failover it follows the new primary's clock, which may be
// behind.
package mongo
