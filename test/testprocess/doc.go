// Package testprocess runs the servers that tests need: brokers, databases, whatever listens on a port. A server lives
// in a directory of its own and on ports of its own, which it keeps when it is killed and started again. It can be
// killed as by kill -9, stopped in order, frozen and thawed, and put behind a [Proxy] that breaks or blocks.
//
// A kind of server is a [Software]: which programs it needs, what they read, how they are started, and when they serve
// clients. [Open] starts one without a test. [Fresh] and [Shared] start one for a test, within a [Family] that says how
// a test is skipped that cannot have it.
//
// The processes die with the one that started them, also when that is killed (Linux: a parent-death signal). Software
// that refuses to run as root runs as the user nobody where this process is root: see [Unprivileged].
//
// Only tests and benchmarks use this package.
package testprocess
