// Package engine is one process's part in the protocol: the components, and what connects them.
//
// A component owns its state, starts no goroutine, does no I/O and reads no clock. Its methods take events and the time.
// What is to be done gathers until the [Engine] takes it, and carries it to the other components and to the interfaces
// of [Config]. Components never call each other.
//
// A caller hands over one event after the other, calls [Engine.Settle] after each, and [Engine.Tick] after a few of
// them and whenever [Engine.Sleep] has passed. The loop of package elect drives it with goroutines, timers and a store,
// a simulation with a queue of events.
//
//   - [Session] is this process's own session, and [Member] what the instance says of itself.
//   - [Peers] are the other sessions: which of them live, which are dead, and when the store was away.
//   - [Keys] are the keys that this process holds or claims, each with its machine and the write under way.
//   - [Mutexes] are the mutexes, read-write locks and semaphores that this process uses.
//   - [Cache] is what is known of the store: counters, locks, members and overrides.
//   - [Outbox] batches what is written: keys, mutexes, counters and events.
//   - [Audit] compares what this process believes with what the store holds, every T/4 and every T.
//   - [Waiters] are the calls that wait for a key.
package engine
