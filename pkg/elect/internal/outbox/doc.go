// Package outbox decides what goes to the store when: the writes of keys in batches, the groups' counters, and events.
//
// Its parts start no goroutine and do no I/O. The loop asks each for the next thing to send, sends it, and gives
// back the answer.
package outbox
