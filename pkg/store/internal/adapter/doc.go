// Package adapter is what several adapters of [store.Store] have in common: the life of a client, a document as text, a
// query tested in the process, and rows that somebody edited so that they cannot be read.
package adapter
