// Package mutex has locks that programs on many machines share: mutexes, read-write locks and semaphores, kept in a
// database. Each is fenced: it comes with a token, and it says at once when it is lost.
//
//	locks, err := mutex.Open(ctx, "sqlite:locks.db")      // or mongodb://, postgres://, …: import the driver
//	held, err := locks.Mutex("reports/monthly").Lock(ctx) // waits its turn
//	defer held.Unlock(ctx)                                // work under held.Context(), and send held.Token() along
//
// Calls wait in one queue, across processes. Once a call has had its first answer from the store, a call made after a
// later write of the lock gets no place before it. It is before it only if it holds the lock by the time the earlier
// one's place is written, or is [Mutex.Unfair].
//
// A waiter that dies or gives up leaves the queue. A holder that cannot renew its lease finds its context ended before
// others may have the lock. The tokens of a lock rise for ever: let what the work changes refuse a smaller one. Nothing
// else keeps off a holder that was frozen in the middle of a write.
package mutex
