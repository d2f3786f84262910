//go:build !linux && !darwin

package elect

// SystemClock is the machine's CLOCK_MONOTONIC and CLOCK_BOOTTIME where there are such, else [GoClock].
func SystemClock() Clock { return GoClock() }
