package sqlite

import (
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"
)

// writeLock is the byte of the -shm file that SQLite locks while a connection writes (WAL_WRITE_LOCK in its wal.c).
const writeLock = 120

// HoldsWriteLock says whether a process of this machine is writing to the SQLite file at path, or was when it was
// stopped. It asks the kernel about one byte, and does not wait. To read /proc/locks instead would hold up all who lock
// a file on this machine (locks_start in Linux's fs/locks.c), for longer than a guard may be silent.
func HoldsWriteLock(path string, pid int) (bool, error) {
	if target, err := filepath.EvalSymlinks(path); err == nil {
		path = target // the name that the file was opened by
	}
	by, err := locks(path+"-shm", writeLock, 1)
	return by == pid, err
}

// probes are the files whose locks are asked about. They stay open, also one that another has replaced: whoever
// closes a file drops all locks that SQLite has on it in the same process (https://sqlite.org/howtocorrupt.html, 2.2).
var probes = openFiles{known: map[string]openFile{}}

type openFiles struct {
	mu    sync.Mutex
	known map[string]openFile // by path
}

type openFile struct {
	fd         int
	dev, inode uint64
}

// of is the descriptor of the file that has the name now.
func (o *openFiles) of(path string) (fd int, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	var info unix.Stat_t
	if err := unix.Stat(path, &info); err != nil {
		return 0, err
	}
	f, open := o.known[path]
	if open && f.dev == info.Dev && f.inode == info.Ino {
		return f.fd, nil
	}
	if fd, err = unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0); err != nil {
		return 0, err
	}
	if err := unix.Fstat(fd, &info); err != nil {
		return 0, err
	}
	o.known[path] = openFile{fd, info.Dev, info.Ino}
	return fd, nil
}
