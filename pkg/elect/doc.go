// Package elect is the lock: at most one owner per key in a cluster, over a database that is there anyway. It needs
// no leader and no service of its own. All it asks of the database is a compare-and-set on small documents (see
// [store.Store]).
//
// # Before anything else
//
// When a lease is lost and a run ignores its cancelled context, the process EXITS with status 75. It does so at 0.9 of
// the lease duration, before another may take the key: that is the default of [Config.OnStuck]. With an OnStuck that
// lets the process go on, two runs of those keys are possible.
//
// # How to use it
//
// Make an [Elector] with [Start], and call [Elector.Lock] with the work as a function. The function's context ends,
// with a cause, when the key is to be released: [ErrReleased], [ErrLeaseLost] or [ErrMaxHold]. By returning it says
// that nothing of the work is left; only then is the key released. [Elector.LockWith] can wait, re-enter and limit
// the time of holding. [Elector.Cluster] is the door for balancers and status pages: many keys, spread over many
// processes.
//
// Every start has a fencing token, [Lease.Token]. Tokens of a key rise for ever. Give the token to whatever the work
// changes, and let that refuse a token smaller than the largest it has seen: the examples show one.
//
// # A session
//
// A process is in the cluster by one session. That is a document with a heartbeat, renewed every tenth of the lease
// duration T, whatever the number of keys.
//
// All deadlines count from the moment at which the last acknowledged heartbeat was SENT. Without another one the
// contexts of runs end at 0.75 T. At 0.9 T [Config.OnStuck] is called for those that have not returned. It takes the
// local clock alone to find that out. This package kills nothing: a replica's guard kills commands at 0.8 T. Others
// mark a session dead that has shown them no new heartbeat for T; only a document that says dead frees keys.
//
// # A key
//
// A key is lost when its session was ended, or its lock names another. It is stopped by force and forgotten, and
// nothing more is written for it. Package protocol holds both machines as pure values, and the argument why two
// processes never run one key at a time. docs/protocol.md draws their states.
//
// # What is not guaranteed
//
//   - A whole process or machine may be frozen (SIGSTOP, a paused VM) and thaw after its lease. It may then run for the
//     moment until its own deadline is looked at. No lease can prevent that. Use the token.
//   - So may work that a run has begun on another machine, or handed to a daemon. So may processes that it has started
//     and does not wait for.
//   - `shardctl run` has a guard, a process of its own that ends the tasks when the worker cannot. A service that
//     embeds this package has none. When it is killed, its children live on, unless it prevents that, and its keys are
//     free only after T.
//   - The clocks of two machines may run at rates that differ by a ratio of at most 1.1. What time they show does not
//     matter.
//   - A lock that is deleted manually, or a live session that is marked dead, may cause two runs for up to T/2. It
//     lasts longer while the store is failing. The tokens still rise.
//   - [Lease.Valid] says what was true a moment ago. Between asking and acting anything can happen: use the token.
//   - There is no order among those who wait for a key.
//
// # When things fail
//
// A write that was not answered may have happened. It is repeated, as the very same write, until the store says how it
// ended; nothing is believed before. A store that is down costs nothing but time: heartbeats are tried again every
// T/40, and runs are cancelled at 0.75 T. Once a heartbeat is acknowledged, keys taken through the Cluster are claimed
// again, under new tokens; those taken by [Elector.Lock] are released. While the own reads or heartbeats fail no
// session is judged, and afterwards all ages start again. So an outage of the store is not taken for the death of all
// others. A run that panics ends with an error, and its key is released.
//
// At the end, [Elector.Run] releases all keys and marks the session dead. When the store does not answer for T and
// nothing runs any more it returns an error that wraps [ErrUnavailable]. Others free the keys within T.
//
// # Concurrency
//
// All methods of Elector and Lease may be called concurrently. One goroutine takes all decisions and never waits
// for the store. The functions given to the Cluster are called by it and must not block. Runs have goroutines of their
// own. When Run has returned nothing is left of any of them.
package elect
