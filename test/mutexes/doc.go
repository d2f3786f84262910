// Package mutexes tests package mutex in real processes on real stores: order among a hundred waiters of ten processes,
// of which some are killed while others come, and a holder that is frozen and thawed. Besides, a thousand readers wait
// behind a writer, and a process closes in the middle of a section. Other read-write locks and semaphores on these
// stores are in test/linearizability.
package mutexes
