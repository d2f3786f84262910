// Package fencemongo is a fence in MongoDB, with the driver's second version. There are two ways.
//
// [Update] changes one document that keeps its own marks, in the field [Field]. It compares, remembers and works in one
// update, and needs no transaction:
//
//	err := fencemongo.Update(ctx, reports, fence.Exclusive("reports/monthly", lease.Token()), "monthly",
//		bson.D{{Key: "$set", Value: bson.D{{Key: "total", Value: 7}}}})
//
// [Marks] are a collection of marks, one document for each key. [Marks.Check] is the first call of a transaction that
// works on whatever documents it likes. It needs a replica set or a sharded cluster.
//
// Writes are acknowledged by a majority. Others could be lost in a failover, and their marks with them.
package fencemongo
