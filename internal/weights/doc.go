// Package weights has the weights of tasks follow how far their subscriptions are behind.
//
// It has three parts. [Rules] are pure: from lags and what is published they make what is to be published next. They
// smooth each lag exponentially, make steps of it with a dead band, and let a step fall late. [Follower] does it for
// one group: one replica, under a lock, publishes by compare-and-set. All replicas read what is published and plan
// with it.
//
// Lag is no load: it is gone once the task has capacity. Were its weight to fall with it, the neighbours would come
// back, and with them the lag. So a weight falls one step at a time, after a wait. Each time the lag returns soon
// after, the wait doubles. Under a constant load moves get rarer and rarer. Damping of route flaps does the same (RFC
// 2439, section 2.3).
package weights
