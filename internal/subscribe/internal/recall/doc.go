// Package recall has what a source remembers of messages beside its position: how often they were delivered, and where
// the broker keeps the position, that there was one.
package recall
