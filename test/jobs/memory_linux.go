package main

import (
	"cmp"
	"os"

	"golang.org/x/sys/unix"
)

// What a machine must have for the files of a run to be in memory, in bytes. The most was 5.3 GB at once, while the
// tests of all packages were compiled.
const (
	roomNeeded   = 8 << 30
	memoryNeeded = 16 << 30
)

// parentDir is where runs have their directories. Where nobody chose it by TMPDIR and there is room, that is in memory.
// A disk that others keep busy may take a second for a write, and replicas on a store like that give up their leases.
func parentDir() string {
	if os.Getenv("TMPDIR") != "" {
		return os.TempDir()
	}
	var files unix.Statfs_t
	var machine unix.Sysinfo_t
	if cmp.Or(unix.Statfs(sharedMemory, &files), unix.Sysinfo(&machine)) != nil ||
		files.Flags&unix.MS_NOEXEC != 0 || files.Bavail*uint64(files.Bsize) < roomNeeded ||
		machine.Totalram*uint64(machine.Unit) < memoryNeeded {
		return os.TempDir()
	}
	return sharedMemory
}
