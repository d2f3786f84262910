// Package lockcommand runs a command under a lock of its own, as flock(1) does on one machine. It is the worker's side
// of `shardctl lock`: the guard starts the command, ends it at the lease's deadlines, and outlives this process.
//
// The lock is the writing or the reading side of a read-write lock. So shared and exclusive use of one key exclude each
// other, as they do with flock(1). A program has the same lock by [mutex.Locks.RWMutex].
//
// [Run] takes the lock, has the command started, passes signals on, and gives the lock back once nothing of the command
// is left. Its parts: Request is what is asked for, session is what holds it, watch is the time while the command runs,
// and relay decides which signals the command has to be given.
package lockcommand
