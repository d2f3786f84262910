// Package mysql keeps the documents of package elect in a database of MariaDB or MySQL. It is tested on MariaDB; MySQL
// itself is untested.
//
// A batch is one text of several statements within one transaction, and so one round trip. Each change carries its
// condition. Connections are at READ COMMITTED: each statement sees what was committed before it began. Parameters are
// put into the text by the driver, as literals of bytes, under settings that the connection sets itself.
//
// Two connections are for all calls, and two for those of sessions alone. A heartbeat that changes no state writes no
// other table, whoever has locked that.
//
// Notifications are lines of a log that each change writes in its own transaction. Watches poll the log. Triggers would
// need the right SUPER wherever the server writes a binary log.
//
// # What it does not promise
//
// A fail-over to a replica that acknowledged nothing loses writes that were acknowledged: see the settings that
// [store.Problems] and [store.Inspect] show. A server that was replaced must not be written to any more. As soon as
// it is read-only, it is taken as unavailable for reads as well.
//
// To import this package registers it for URIs that begin with mysql: (see [store.Register]).
package mysql
