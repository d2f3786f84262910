// Package sqlite keeps the documents of package elect in one SQLite file, for several processes of one machine.
//
// The file is in WAL mode with synchronous=FULL: a write that was acknowledged survives a power failure. A batch is one
// transaction begun with BEGIN IMMEDIATE. Watches poll PRAGMA data_version, which costs a look into shared memory.
//
// # What it is not for
//
// SQLite's locks do not work on network file systems (NFS, SMB, many shared volumes), and WAL needs memory shared by
// all processes. Never let two machines, or two virtual machines, open one file. Nothing can detect that reliably, so
// nothing tries.
//
// A process stopped while it holds the write lock stops all writers until it goes on or dies; their calls end with
// their contexts. A file that is removed or replaced under a running process is refused from then on. Others may
// already be using another file of that name. No code of the process may open and close the file by other means.
// Closing any descriptor of it takes away SQLite's locks (a rule of POSIX).
//
// To import this package registers it for URIs that begin with sqlite: (see [store.Register]).
package sqlite
