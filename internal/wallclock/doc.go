// Package wallclock is where the wall clock is read, as far as it means something to anybody but people. That is for
// the moments of schedules, and for the clock of a store that has none but its clients'.
//
// No promise hangs on it. Deadlines and the ages of sessions are measured by steady clocks; see package protocol.
//
// Built with the tag testhooks, and only then, the clock is as many milliseconds off as a file says.
// SHARDCTL_TEST_CLOCK_FILE names it, and it is read again each time. The scenarios of test/e2e give one
// replica of several such a clock; programs that are shipped are built without the tag.
package wallclock
