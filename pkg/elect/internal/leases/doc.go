// Package leases keeps the keys that this process holds or claims. For each there is one machine of package protocol,
// the lock as last acknowledged, and the write under way.
//
// [Table] starts no goroutine and does no I/O. Its methods take events; what is to be done gathers in a [Ready],
// which the loop takes with [Table.Ready] and carries out. Runs themselves belong to the loop: the table says which
// to start and to stop, and is informed when one has returned.
package leases
