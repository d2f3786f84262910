// Package simulation runs whole clusters in virtual time: the machines of pkg/elect/protocol and the plans of pkg/balancer, for
// hundreds of replicas and a hundred thousand keys, under faults drawn from a seed. Nothing sleeps and there are no goroutines: a
// queue of events is the only clock, so that an hour passes in about a minute and a seed always tells the same story.
//
// What decides is production code: protocol.Session, protocol.Peer, protocol.Key, the rules between them, and balancer.Balance.
// What is modelled is what stands round them: a store (documents with revisions, compare-and-set, requests that take time or are lost),
// the loop of a replica, and the tasks. The loop itself is tested by the small simulation in pkg/elect.
//
// One thing is coarser than in production: all replicas that have read lately see the same snapshot of the locks, published
// some moments after a change, so that they can share one plan. Claims and releases are decided on that snapshot and meet the
// true documents, which may have moved on.
package simulation
