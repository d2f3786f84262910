// Package stale shows a fence an owner that is frozen and thawed: two real processes, each with a lease on one key. The
// first is stopped by SIGSTOP beyond its lease. The second takes over and writes. Then the first goes on.
//
// Only tests use it. A test's own program is the owner, started again: its TestMain begins with [Main].
package stale
