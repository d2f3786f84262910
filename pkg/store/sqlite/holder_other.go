//go:build !linux

package sqlite

// HoldsWriteLock is known on Linux only.
func HoldsWriteLock(string, int) (bool, error) { return false, nil }
