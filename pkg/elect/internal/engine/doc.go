// Package engine is one process's part in the protocol: the components, and what connects them.
//
// A component owns its state, starts no goroutine, does no I/O and reads no clock. Its methods take events and the
// time. What is to be done they add to the [Effects] that all of them share. Components never call each other: the
// [Engine] carries each effect to another component or to one of the interfaces of [Config].
//
//   - [Self] is this process's own session, and its Member what the instance says of itself.
//   - [Peers] are the other sessions: which of them live, which are dead, and when the store was away.
//   - [Keys] are the keys that this process holds or claims, each with its machine and the write under way. Its claims
//     decide what may be claimed, and make the writes of locks that are not held here.
//   - [Mutexes] are the mutexes, read-write locks and semaphores that this process uses. They stand beside keys, as in
//     package protocol.
//   - [Cache] is what is known of the store: counters, locks, members and overrides.
//   - [Outbox] batches what is written: keys, mutexes, counters and events. reads does so for what is read.
//   - heart keeps the own session alive in the store, looks at the others, and marks the dead ones.
//   - [Trouble] is what the store has said last to those who wait for it.
//   - audit compares what this process believes with what the store holds, every T/4 and every T. auditor does what
//     that asks for.
//
// A caller hands over one event after the other, calls [Engine.Settle] after each, and [Engine.Tick] after a few of
// them and whenever [Engine.Sleep] has passed. Package loop does so with goroutines, timers and a store, and a
// simulation with a queue of events.
//
// # The way of a claim
//
// From a plan to a write:
//
//  1. The plan of package reconcile gives the key to this process, which calls Claim of elect.Cluster. The plan rests on a
//     snapshot that may be old, so nothing about the owner is decided by it.
//  2. Elector.claim brings it to the loop, where [Engine.Claim] asks [Peers].Orphaned whether the owner of the lock is
//     dead. claims.begin, in claim.go, looks at the own lease and the caps, and protocol.LockFacts.Claimable decides.
//  3. The key's machine, protocol.Key.Step, asks for a write on the revision as read. heldKey.change makes it.
//  4. Outbox.sendBatch hands it to sender.apply, which calls the store.
//
// # The way of an answer
//
// From a store's reply to a started run:
//
//  1. The answer to a claim enters: sender.enter lets none pass that belongs to another lineage of the store. The
//     caller of sender.apply, here Outbox.sendBatch, hands it to Keys.answered.
//  2. Keys.step feeds it to the key's machine, protocol.Key.Step. Keys.act makes an effect of each action: [Acked] and
//     [Start].
//  3. [Engine.Settle] takes the effects in the order in which they came up, and Engine.carry does what each says.
//  4. Acked: Engine.acked puts the lock into the cache, and has the group's counter incremented.
//  5. Start: [Work].Start, which the claim has brought along, makes the lease and starts the run in package elect.
//  6. At the end of [Engine.Tick] Outbox.flush sends what has come up meanwhile, in batches.
//
// # Three questions
//
// Where is the hold-off after a reservation? A released lock names the next owner. For a second the others leave it
// alone while that one lives. firstSeen.facts, in claim.go, collects what is known of it: how long the lock has been
// reserved by the store's clock, and how long it was seen here. protocol.LockFacts.Claimable decides.
//
// What happens at a missed heartbeat? [Self].Tick, in session.go, repeats the write after T/40. protocol.Lease says
// when D and X come. At D the session's machine says CancelTasks: Session.act makes an effect for all keys of it, and
// [Keys].All stops each key's run. A held-up loop does not delay that: Watchdog.due, in package loop, stops runs at D
// and reports those that are left at X. The other sessions count T from the last heartbeat that they saw: [Peers].Tick,
// in peers.go, lets protocol.Peer kill it then.
//
// Where must a claim wait after an outage? A claim needs a valid lease: claims.begin, in claim.go, answers
// [ClaimInvalid], and the machine starts nothing, until a heartbeat is acknowledged again. The keys of others are not
// free before their age has reached T. All ages start from zero with the first success after an outage, in
// Peers.succeeded.
package engine
