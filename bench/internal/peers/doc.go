// Package peers measures locks of shardctl and those that people use instead, in one run. These are etcd's concurrency
// package, redislock, leader election by Kubernetes Leases, and a document per lock in MongoDB as one writes it
// oneself.
//
// Every holder is a process of its own (Holder), so that kill -9 is a crash. Its parent orders over its standard
// input what to acquire and release, and reads when that happened by the clock that all processes share.
package peers
