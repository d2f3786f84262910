// Package linearizability records histories of real runs, with faults on, and has porcupine judge them.
//
// There are four sorts of histories:
//
//   - of documents: clients, each with a store of its own on one database, read, list, create, compare-and-set, delete
//     and increment a few documents at once. Each document is a history: a register with versions.
//   - of locks: electors lock and unlock keys, and are cut off, killed and closed meanwhile. Each key is a history: a
//     lock with one holder whose tokens rise.
//   - of mutexes: the same electors lock, try and unlock mutexes, unfair ones, read-write locks and semaphores. Each is
//     a history: as many holders as it allows, for as long as their contexts go on, and tokens that rise.
//   - of values: the runs of those keys read and set what is kept with them, also under tokens that are not the newest.
//     Each value is a history: a register that refuses a token smaller than one that has used it.
//
// A write of unknown outcome may have happened, or may yet happen, at any time until the end. What is known of it is
// used: once anybody has seen what it wrote, it happened before that reply came. One that was never seen cannot matter
// and is left out; this keeps the search small and changes no verdict.
//
// More is judged than the order of events. A document is shown only as somebody wrote it, field by field; a refusal
// shows a document that does not meet the condition. An elector says that a key is held by another only when somebody
// might hold it. In the end, every key and mutex can be locked.
//
// The order of waiting is judged by what was written: each document of a mutex, from the last one back. Tickets come at
// the end and keep their order. No one enters before one who stays and could have entered, but for unfair mutexes. No
// ticket of a session that lives is taken out while its call waits.
//
// Not judged are notifications of Watch, runs that share a lease (LockOptions.Reentrant), and whether List is up to
// date on MongoDB. It may be stale by contract: it must show a version that was written, and not before it was.
//
// The faults: requests and answers lost, delayed, or late by chance; calls that end early; electors cut off, killed and
// closed. On MongoDB (a set of three of its own) also connections closed, answers of writes lost, write concern errors,
// NotPrimary, commands held up, and step-downs. A primary also stands still, dies, or has to take back what only it
// had. On SQLite also another process that holds the file, and is killed while it does. In memory, where time costs
// nothing, more of the first sort.
//
// What is done and when faults come is decided by a seed, which is printed. Real time is not, so that a run never comes
// back quite the same. A wrong history is printed as a time line, and drawn to a file.
//
// All of it is tests: there is nothing to import. For longer runs:
//
//	go test ./test/linearizability -v -linearizability.seconds 600 -linearizability.seed 7
package linearizability
