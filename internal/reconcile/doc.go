// Package reconcile acts on the plans of package balancer: each replica computes the same plan, claims the keys that it
// is given and releases those that are taken from it.
//
// [Loop] is the reconciliation loop of one replica. It looks at what its elector knows, plans and acts. Keys that are
// reserved for this replica are claimed at once, before any plan; orphans as soon as they are known. Keys that never
// had an owner are claimed after a short rest ([Policy].FirstQuiet), so that replicas that start together share them
// out. Keys move for balance alone only once membership has been stable for [Policy].Settle and no outage of the store
// is recent.
//
// Weights may change while the list stays, as [DeclaredGroup].WeightRevision tells. Each replica publishes in its
// member document which it plans with. While these differ, keys of the group that are held stay.
//
// Replicas with different task lists at one revision do not balance the group and remove nothing of it until they
// agree. A lower revision gives way. A replica claims only keys that it knows.
//
// [Decide] is the pure part: it takes the time as an argument and keeps nothing. [Explain] and [Preview] tell those who
// take no part what a decision would find and what a change would move; [Simulate] plans for a cluster that need not
// exist.
//
// The view that a decision is made from may be stale. What follows from it is a compare-and-set, which the store
// refuses if the key has changed since, so a wrong decision costs a write and never safety.
package reconcile
