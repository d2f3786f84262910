//go:build !linux

package process

import (
	"errors"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// CanFind says that a command is its process group and nothing else: what leaves the group cannot be found.
const CanFind = false

// OwnGroup makes a child a process group of its own. There is no death signal here.
func OwnGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// startIn does nothing here: there are no control groups.
func startIn(*syscall.SysProcAttr, *os.File) {}

// Self is the path of this program.
func Self() (string, error) { return os.Executable() }

// ReleaseProgramPages does nothing here.
func ReleaseProgramPages() {}

func onMainThread() bool { return false } // death signals are Linux's

// BecomeSubreaper does nothing here: orphans go to the first process of the machine.
func BecomeSubreaper() error { return nil }

// Children cannot be listed here.
func Children() ([]int, error) { return nil, errors.ErrUnsupported }

// All processes cannot be listed here.
func All() ([]Proc, error) { return nil, errors.ErrUnsupported }

// Read cannot look at a process here.
func Read(int) (Proc, bool) { return Proc{}, false }

// Environ of another process cannot be read here.
func Environ(_ int, variables ...string) []string { return make([]string, len(variables)) }

// LookEnviron cannot see another process here.
func LookEnviron(_ int, variables ...string) (values []string, sure bool) {
	return make([]string, len(variables)), true
}

// Signal signals the process with this number. The error is nil as well when it has ended, and EPERM when this process
// may not signal it.
func (p Proc) Signal(sig unix.Signal) error {
	if err := unix.Kill(p.PID, sig); !errors.Is(err, unix.ESRCH) {
		return err
	}
	return nil
}
