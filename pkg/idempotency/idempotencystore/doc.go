// Package idempotencystore keeps the records of requests in a store of package elect: at most one effect.
//
// A record is a document of the kind request. It names the session of the process that works on the request. When that
// session is dead, so is the caller, within the lease duration T: repetitions are told that it was interrupted, or call
// the work again (idempotency.Config.Recover). The context of the work ends, with cause elect.ErrLeaseLost, before the
// others may take the process for dead. All requests of a process cost its one heartbeat.
//
// Electors of the cluster remove records whose time is over.
//
// What a store may lose, the records lose as well. A Redis that fails over may lose acknowledged writes; then a request
// that was done is new. Where that must not be, keep the record in the transaction of the work.
package idempotencystore
