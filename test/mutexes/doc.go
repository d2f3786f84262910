// Package mutexes tests package mutex in real processes on real stores: order among a hundred waiters of ten processes,
// of which some are killed while others come, a holder that is frozen and thawed, a thousand readers behind a writer, and a
// process that closes in the middle of a section. Other read-write locks and semaphores
// on these stores are in test/linearizability.
package mutexes
