// Package store says what package elect asks of a database: small versioned documents that are changed only by
// compare-and-set on their revision (see [Store]).
//
// The packages below it implement it, one for each database; package storetest is the suite that each of them passes.
// Packages whose databases are named by URIs register a [Driver] when they are imported, so that programs open them by
// [Open].
package store
