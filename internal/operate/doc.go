// Package operate turns what an operator asks for into documents of the store, or says why it cannot be.
//
// [Decide] is pure: it goes by what is known of the cluster, reads no clock and writes nothing. A [Writer] writes what
// it decided. The admin listener of a replica uses both, and so do commands that reach for the store themselves. A
// refusal reads the same in both ways.
package operate
