//go:build !linux

package guard

import (
	"fmt"
	"os"
	"syscall"
)

// childAttr makes a command a process group of its own. There is no death signal.
func childAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

func selfPath() (string, error) {
	path, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("find this program: %w", err)
	}
	return path, nil
}
