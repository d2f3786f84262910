// Package memory keeps the documents of package elect in memory, for tests and simulations of one process.
//
// [New] makes an empty database and a first client of it; [Store.Client] makes further clients. Each has its own
// [Store.Close] and its own faults, so that one replica can be cut off while the others go on. Nothing is kept when the
// process ends.
//
// It works inside a testing/synctest bubble. It starts no goroutine of its own while a call runs. Every wait is on a
// context or a timer of the bubble, and a watch ends with its context.
package memory
