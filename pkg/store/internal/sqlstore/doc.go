// Package sqlstore keeps the documents of package elect in a SQL database. It imports no driver: packages beside it
// open databases, and what differs from one to the next is a [File] or a [Server].
//
// There is a table for each kind of document; their names begin with the cluster's, so that several clusters may share
// a database. A batch is one transaction, in which each change is tested and has its own outcome.
//
// A [File] has one writer at a time. Each change is read, judged and written. A [Server] has many, and each statement
// costs the way there and back. So a change is a statement with its condition, and behind it a query for the document
// as it is then; no statement needs the answer of another, and a batch is sent at once. The query is a statement of its
// own: in the same one it would show what was there before a wait for somebody else's row.
//
// Somebody may lock a table for long. Heartbeats, and reads of sessions, need no other table than theirs, and a
// [Server] has a [Lane] for them.
//
// What watchers care for is noted in a short log, by the writer of a file and by triggers of a server; heartbeats are
// not in it. A watch reads the log when a [Signal] says so.
package sqlstore
