package process

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// ErrChildless says that this process has no child, neither living nor dead.
var ErrChildless = errors.New("no child is left")

// ReapAny collects one child that has ended, without waiting; with stops also one that was stopped, which stays. pid is
// 0 when there is none, and the error wraps [ErrChildless] when there is no child at all. A process that calls it must
// wait for its children in no other way.
func ReapAny(stops bool) (pid int, status unix.WaitStatus, err error) {
	options := unix.WNOHANG
	if stops {
		options |= unix.WUNTRACED
	}
	for {
		pid, err = unix.Wait4(-1, &status, options, nil)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case errors.Is(err, unix.ECHILD):
			return 0, 0, ErrChildless
		case err != nil:
			return 0, 0, fmt.Errorf("wait for children: %w", err)
		default:
			return max(pid, 0), status, nil
		}
	}
}

// Wait waits for the end of one child, and reaps it.
func Wait(pid int) (unix.WaitStatus, error) {
	for {
		var status unix.WaitStatus
		_, err := unix.Wait4(pid, &status, 0, nil)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return 0, fmt.Errorf("wait for process %d: %w", pid, err)
		default:
			return status, nil
		}
	}
}
