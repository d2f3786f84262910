// Package simulation runs whole clusters in virtual time, for hundreds of replicas and up to a hundred thousand keys,
// under faults drawn from a seed. Nothing sleeps and there are no goroutines. A queue of events is the only clock, so
// that half an hour passes in minutes and a seed always has the same course.
//
// What decides is production code. Each replica is an engine.Engine with
// all its components. These are the own session, the watch over the others, claims and releases, mutexes, the cache
// with its schedule of reads, the outbox and the audit. Plans and their pace are those of package balancer, Balance and
// Decide.
//
// What is simulated stands round them: a store, the clocks, the guard, and the tasks. The store has documents with
// revisions, compare-and-set, requests that take time or are lost, and notifications. The loop that drives an engine in
// production is tested by the small simulation in package elect. The loop of the balancer is tested by that package's
// own tests.
//
// One thing is coarser than in production, where each process reads all locks itself. All replicas that have read
// lately see the same snapshot of the locks, so that they can share one plan. It is published some moments after a
// change. What a replica knows to be newer is in a cache of its own. Claims and releases meet the true documents, which
// may have moved on. No operator edits a document, and nothing is dead for so long that it is removed.
//
// Everything is in the tests; the package itself is empty.
package simulation
