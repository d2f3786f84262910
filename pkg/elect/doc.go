// Package elect is the lock: one owner per key, over a store of small versioned documents.
package elect
