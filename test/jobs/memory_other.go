//go:build unix && !linux

package main

import "os"

// parentDir is where runs have their directories.
func parentDir() string { return os.TempDir() }
