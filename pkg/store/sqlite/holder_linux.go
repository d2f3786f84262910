package sqlite

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// writeLock is the byte of the -shm file that SQLite locks while a connection writes (WAL_WRITE_LOCK in its wal.c).
const writeLock = 120

// HoldsWriteLock says whether a process of this machine is writing to the SQLite file at path, or was when it was
// stopped. It reads /proc/locks: to open and close a file that this process may have open through SQLite would drop
// SQLite's locks.
func HoldsWriteLock(path string, pid int) (bool, error) {
	if target, err := filepath.EvalSymlinks(path); err == nil {
		path = target // the name that the file was opened by
	}
	var info unix.Stat_t
	if err := unix.Stat(path+"-shm", &info); err != nil {
		return false, fmt.Errorf("who writes to %q: %w", path, err)
	}
	locks, err := os.Open("/proc/locks")
	if err != nil {
		return false, fmt.Errorf("who writes to %q: %w", path, err)
	}
	defer func() { _ = locks.Close() }() // only read
	lines := bufio.NewScanner(locks)
	for lines.Scan() {
		if isWriteLock(lines.Text(), pid, info.Ino) {
			return true, nil
		}
	}
	return false, lines.Err()
}

// isWriteLock reads a line as "3: POSIX  ADVISORY  WRITE 1234 fe:00:5678 120 120". The device is not compared: file
// systems in layers show another one there than to stat.
func isWriteLock(line string, pid int, inode uint64) bool {
	f := strings.Fields(line)
	if len(f) != 8 || f[1] != "POSIX" || f[3] != "WRITE" || f[4] != strconv.Itoa(pid) ||
		!strings.HasSuffix(f[5], ":"+strconv.FormatUint(inode, 10)) {
		return false
	}
	from, err := strconv.Atoi(f[6])
	if err != nil || from > writeLock {
		return false
	}
	to, err := strconv.Atoi(f[7])
	return f[7] == "EOF" || err == nil && to >= writeLock
}
