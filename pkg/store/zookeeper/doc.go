// Package zookeeper keeps documents in Apache ZooKeeper. Its driver takes URIs that begin with zk:.
//
//	zk://[USER:PASSWORD@]HOST[:PORT],…[/CHROOT][?tls=true&tlsCAFile=FILE&tlsCertFile=FILE&tlsKeyFile=FILE]
//
// # Layout
//
// A document is a znode with one child, whose name is its revision, and one entry in an index, which says the revision
// once more. A change is one multi: delete the child of the old revision, create that of the new, the same in the
// index, and set the data. It fails as a whole when the old child is not there. The znode's own version is no
// condition: it begins at 0 again when a znode is deleted and created, and revisions do not.
//
// # Promises
//
// A write is acknowledged once a majority of the servers has it on disk. Read is linearizable: it waits for a small
// write first, since a leader that was deposed still answers ZooKeeper's sync. A user who may only read gets the sync.
// List shows the state of one server, which is never rolled back and may be behind by a moment.
//
// Neither sessions nor ephemeral znodes of ZooKeeper say anything about a lease of ours. A client whose session expired
// connects again and goes on; its watches send a Resync.
//
// [store.Reply.Floor] is the number of the last transaction plus a base that is kept in a znode. Each Open raises the
// base to 32 times the clock, so that tokens rise after a loss of all files, too. A client whose session expired may
// connect to a server that is behind the last one: a List may then show a state that was seen before.
package zookeeper
