// Package ballot checks by searching how a document stays one on several independent servers. Servers answer late or
// never, requests arrive late, processes and their writes are abandoned, tombstones are removed, and a disk is lost.
//
// Everything is in the tests, which search the values of package pkg/store/internal/ballot themselves. docs/protocol.md
// says what is checked and what is assumed.
package ballot
