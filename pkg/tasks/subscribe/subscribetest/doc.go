// Package subscribetest is what every source of messages must do, as tests of real brokers.
//
// [Run] runs the suite. A source's package calls it with a function that makes a fresh [Topic]. [Store] and
// [NewSession] are the other half of an Open, also for tests that are the source's own.
package subscribetest
