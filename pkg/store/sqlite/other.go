//go:build !linux

package sqlite

// HoldsWriteLock is known on Linux only.
func HoldsWriteLock(string, int) (bool, error) { return false, nil }

func checkNames(string) error { return nil }

func usesAnotherLog(string) (pid int, err error) { return 0, nil }
