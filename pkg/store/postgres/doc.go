// Package postgres keeps the documents of package elect in PostgreSQL 12 or newer.
//
// A batch is one transaction and one round trip: its statements are sent together, with what begins and commits it.
// Watches are notified by LISTEN and NOTIFY. Behind a pooler that gives each transaction another connection, LISTEN
// hears nothing: then watches look four times a second, and the store says so as the problem StorePolled.
// With pollMillis in the URI they look at that interval, and no change notifies.
//
// A client keeps four connections at most: two for all calls, one for those of sessions alone, one that listens. Where
// a lock is not had soon, a statement fails and is sent again. Where a call ends before its answer, its connection is
// kept until the answer comes. It is given up when the server turns out to be another one, or does not know it any
// more. A statement is never cancelled: PostgreSQL ends the wait for a synchronous standby then, and shows a write that
// the standby may never get.
//
// To import this package registers it for URIs that begin with postgres: (see [store.Register]).
package postgres
