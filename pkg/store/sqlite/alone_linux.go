package sqlite

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"

	"github.com/shardctl/shardctl/pkg/store/driver"
)

// Bytes that SQLite locks for as long as a database in WAL mode is open: those of the file (SHARED_FIRST and SHARED_SIZE
// in its os.h), and one of the -shm file (UNIX_SHM_DMS in its os_unix.c).
const (
	sharedFirst = 0x40000002
	sharedSize  = 510
	logOpen     = 128
)

// checkNames refuses a file that may be reached by another path as well: its log would be another one there.
func checkNames(abs string) error {
	var info unix.Statx_t
	if err := unix.Statx(unix.AT_FDCWD, abs, 0, unix.STATX_NLINK, &info); err != nil {
		if errors.Is(err, unix.ENOSYS) {
			return nil // Linux before 4.11
		}
		return fmt.Errorf("%w: %w", driver.ErrUnavailable, err)
	}
	switch {
	case info.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0: // Linux 5.8 says so
		return fmt.Errorf("%w: it is mounted by itself, without its log: mount its directory", driver.ErrInvalid)
	case info.Nlink > 1:
		return fmt.Errorf("%w: it has %d names (hard links), and a log for each: remove all but one", driver.ErrInvalid,
			info.Nlink)
	}
	return nil
}

// usesAnotherLog is a process that has the file open, while nobody has the shared memory of this path open, or its log is
// not there; 0: none.
func usesAnotherLog(abs string) (pid int, err error) {
	pid, err = locks(abs, sharedFirst, sharedSize)
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EOPNOTSUPP) {
		return 0, nil // a kernel in user space, or a file system, that does not say who has locks
	}
	if err != nil || pid == 0 {
		return 0, err
	}
	by, err := locks(abs+"-shm", logOpen, 1)
	if err == nil && by != 0 {
		_, err = os.Stat(abs + "-wal") // who opens the shared memory has opened the log before
	}
	switch {
	case errors.Is(err, fs.ErrNotExist), err == nil && by == 0:
		return pid, nil
	default:
		return 0, err
	}
}

// locks is a process that has locked any of these bytes of a file, this process as well; 0: none. -1: one in another
// namespace of processes.
func locks(path string, from, length int64) (pid int, err error) {
	fd, err := probes.of(path)
	if err != nil {
		return 0, fmt.Errorf("who has %q open: %w", path, err)
	}
	// Of an open file, and not of a process, so that a lock of this process is seen as well.
	lock := unix.Flock_t{Type: unix.F_WRLCK, Start: from, Len: length}
	if err := unix.FcntlFlock(uintptr(fd), unix.F_OFD_GETLK, &lock); err != nil {
		return 0, fmt.Errorf("who has %q open: %w", path, err)
	}
	switch {
	case lock.Type == unix.F_UNLCK:
		return 0, nil
	case lock.Pid == 0:
		return -1, nil
	}
	return int(lock.Pid), nil
}
