//go:build linux

package harness

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
)

// asFirst becomes the first process of a container: it sees the container's processes alone, and then is the program.
const asFirst = `mount --make-rprivate / && mount -t proc none /proc && exec "$0" "$@"`

// StartContainer is Start for a replica whose guard is PID 1 of a PID namespace of its own, as in a container. When
// that is killed, so is everything in it. fields are further ones of its configuration; args follow --config PATH.
func (c *Cluster) StartContainer(
	ctx context.Context, name string, fields map[string]any, args ...string,
) (*Replica, error) {
	f, err := c.prepare(ctx, name, c.configureWith(name, fields))
	if err != nil {
		return nil, err
	}
	log, err := os.Create(f.log)
	if err != nil {
		return nil, fmt.Errorf("log: %w", err)
	}
	// the process has its own
	defer func() { _ = log.Close() }()
	//nolint:noctx // its life is the scenario's
	cmd := exec.Command("sh", append([]string{"-c", asFirst, c.bins.Shardctl, "run", "--config", f.config}, args...)...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Env = append(os.Environ(), c.mark()...)
	err = spawnWith(cmd, containerAttr())
	if errors.Is(err, os.ErrPermission) {
		return nil, fmt.Errorf("start %s in a PID namespace of its own: run these scenarios as root, or where users "+
			"may make namespaces: %w", name, err)
	}
	if err != nil {
		return nil, fmt.Errorf("start %s in a PID namespace of its own: %w", name, err)
	}
	r := &Replica{LogFile: f.log, Config: f.config, cmd: cmd, exited: make(chan struct{})}
	r.guard, err = procOf(cmd.Process.Pid) // not reaped yet, so it is there
	go func() {
		_ = cmd.Wait() // how it ended is in ProcessState
		close(r.exited)
	}()
	return c.joined(r, name, f), err
}

// containerAttr gives a process namespaces of its own; who is not root gets one of users as well, in which it is.
func containerAttr() *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{Setpgid: true, Cloneflags: syscall.CLONE_NEWPID | syscall.CLONE_NEWNS}
	if uid := os.Geteuid(); uid != 0 {
		attr.Cloneflags |= syscall.CLONE_NEWUSER
		attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: uid, Size: 1}}
		attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: 1}}
	}
	return attr
}
