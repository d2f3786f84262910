// Package cache keeps what this process knows of the store: the groups' counters, the locks of the tracked groups,
// members and overrides. It may be stale; whatever follows from it is a compare-and-set.
//
// An idle replica reads the groups' counters only. When one has moved it reads that group's locks from a revision a
// little below the highest it knows. Revisions of locks follow the store's clock, so that is what changed lately.
//
// [Cache] starts no goroutine and does no I/O. [Cache.Plan] says what is to be read, and [Cache.Refreshed] takes
// what was found.
package cache
