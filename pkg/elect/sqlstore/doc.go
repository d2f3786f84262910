// Package sqlstore keeps the documents of package elect in a SQL database. It imports no driver: package sqlite opens
// SQLite files, and what differs from one database to the next is a [Dialect].
//
// There is a table for each kind of document; their names begin with the cluster's, so that several clusters may share
// a database. A batch is one transaction, in which each change is tested and has its own outcome.
//
// Watching is polling of a number that changes when somebody has written. When it did, a short log is read that writers
// keep of what watchers care for; heartbeats are not in it.
package sqlstore
