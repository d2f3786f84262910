// Package store says what package elect asks of a database: small versioned documents that are changed only by
// compare-and-set on their revision (see [Store]).
//
// The packages memstore, mongostore and sqlstore implement it; package storetest is the suite that each of them passes.
package store
