// Package storecheck finds out what a store promises here: what it is, how it is set up, how fast it answers, and what
// of what replicas rely on is missing.
//
// It writes documents of its own, of kinds that no replica acts on, and removes them.
package storecheck
