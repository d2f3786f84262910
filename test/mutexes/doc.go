// Package mutexes tests package mutex in real processes on real stores: order among a hundred waiters of ten processes,
// of which some are killed, and a holder that is frozen and thawed.
package mutexes
