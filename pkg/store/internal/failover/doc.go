// Package failover checks by searching how a lock stays one's own in a store that forgets. Such a store has several
// nodes, replicates asynchronously, and promotes a node that misses a suffix of acknowledged writes. Redis is one.
//
// Everything is in the tests; the package itself is empty. docs/protocol.md says what is checked and what is assumed.
package failover
