// Package wallclock is where the wall clock is read, as far as it means something to anybody but people: the moments of
// schedules, and the clock of a store that has none but its clients'.
//
// No promise hangs on it. Deadlines and the ages of sessions are measured by steady clocks; see package protocol.
//
// Built with the tag testhooks, and only then, the clock is as many milliseconds off as the file says that
// SHARDCTL_TEST_CLOCK_FILE names, read again each time. The scenarios of test/e2e/faults/scale give one replica of
// several such a clock; programs that are shipped are built without the tag.
package wallclock
