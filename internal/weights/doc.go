// Package weights has the weights of tasks follow what is measured: how far subscriptions are behind, or the load of
// tasks.
//
// It has three parts. [Rules] are pure: from what is measured and what is published they make what is to be published
// next. They smooth each value exponentially, make levels of it with a dead band, and wait after a move. [Follower]
// does it for one group: one replica, under a lock, publishes by compare-and-set. All replicas read what is published
// and plan with it.
//
// A load moves with its task. So its level follows both ways, as soon as that is worth it: while an instance has more
// than 15 % above the mean. Otherwise another weight would move a task that may as well stay.
//
// Lag is no load: it is gone once the task has capacity. Were its weight to fall with it, the neighbours would come
// back, and with them the lag. So a weight falls one step at a time, after a wait. Each time the lag returns soon
// after, the wait doubles. Under a constant load moves get rarer and rarer. Damping of route flaps does the same (RFC
// 2439, section 2.3).
package weights
