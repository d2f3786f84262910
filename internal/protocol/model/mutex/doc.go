// Package mutex checks by searching how a mutex, a read-write lock and a semaphore keep their promises: the machine of
// package protocol in up to three processes, on one document.
//
// Everything is in the tests; the package itself is empty. docs/protocol.md says what is checked and what is assumed.
package mutex
