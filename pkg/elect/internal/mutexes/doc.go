// Package mutexes keeps the mutexes, read-write locks and semaphores that this process uses. For each there is one
// machine of package protocol, and the write under way.
//
// [Table] starts no goroutine and does no I/O. Its methods take events; what is to be done gathers in a [Ready], which
// the loop takes with [Table.Ready] and carries out. Calls and holds themselves belong to the loop: the table says what
// became of each, by its claim.
package mutexes
