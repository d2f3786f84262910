// Package status shows what a cluster does. A snapshot of it appears as a JSON API with live changes, as a page for
// people and as Prometheus metrics. What the JSON says is in package api, and package client reads it.
//
// The owner of the cluster's state hands a [snapshot.Cluster], which is not changed any more, to a [snapshot.Board] as
// often as anything changed. Everything here only reads: the handler of [New] answers from the newest snapshot and
// never asks the store on the way, events, runs and locks of programs apart. While the store is unreachable the last
// snapshot is served with "stale": true; it is for the one who publishes to say so.
//
// What is shown is what this replica saw last. It may be some moments behind the store, and nothing that must be
// exact (who may run a task) may hang on it.
package status
