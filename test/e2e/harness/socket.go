//go:build linux

package harness

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// BreakSocket shuts the socket between guard and worker down, from the worker's end: unix.SHUT_RD, SHUT_WR or
// SHUT_RDWR. Neither process takes part in it. It needs the right to trace the worker, which root has, and its ancestor
// where the kernel's default stands.
func (r *Replica) BreakSocket(how int) error {
	worker, err := r.WorkerProc()
	if err != nil {
		return err
	}
	pidfd, err := unix.PidfdOpen(worker.PID, 0)
	if err != nil {
		return fmt.Errorf("open the worker %d: %w", worker.PID, err)
	}
	defer func() { _ = unix.Close(pidfd) }()
	entries, err := os.ReadDir(filepath.Join("/proc", strconv.Itoa(worker.PID), "fd"))
	if err != nil {
		return err
	}
	for _, entry := range entries {
		number, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		fd, err := unix.PidfdGetfd(pidfd, number, 0)
		if errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENOSYS) {
			return fmt.Errorf("take the worker's descriptors: %w", err)
		}
		if err != nil {
			continue // closed meanwhile
		}
		ours := isSocketPairOf(fd, r.guard.PID)
		if ours {
			err = unix.Shutdown(fd, how)
		}
		_ = unix.Close(fd)
		if ours {
			return err
		}
	}
	return fmt.Errorf("%s: no socket of its guard %d was found", r.Name, r.guard.PID)
}

// isSocketPairOf says whether this is one end of a stream socket pair that a process made.
func isSocketPairOf(fd, pid int) bool {
	domain, err1 := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_DOMAIN)
	kind, err2 := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TYPE)
	peer, err3 := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
	return errors.Join(err1, err2, err3) == nil && domain == unix.AF_UNIX && kind == unix.SOCK_STREAM &&
		int(peer.Pid) == pid
}
