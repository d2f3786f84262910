// Package clock reads the wall clock and waits.
//
// [Wall] is where the wall clock is read, as far as it means something to anybody but people: for the ticks of
// schedules, and for the clock of a store that has none but its clients'. No promise depends on it. Deadlines and the
// ages of sessions are measured by steady clocks; see package protocol.
//
// Built with the tag testhooks, and only then, [Wall] is off by as many milliseconds as a file says. The variable
// SHARDCTL_TEST_CLOCK_FILE names the file, which is read again each time. The scenarios of test/e2e give one replica of
// several such a clock; programs that are shipped are built without the tag.
package clock
