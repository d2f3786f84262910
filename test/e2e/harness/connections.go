//go:build linux

package harness

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Connections counts the TCP connections that a server on this machine has with its clients. Those that the client has
// closed do not count.
type Connections struct {
	port string // as in /proc/net/tcp
	stop chan struct{}
	wait sync.WaitGroup

	mu        sync.Mutex
	now, most int
	failure   error
}

// CountConnections counts at the server that listens at addr, HOST:PORT, every few milliseconds until Close.
func CountConnections(addr string) (*Connections, error) {
	_, text, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, fmt.Errorf("count connections: %w", err)
	}
	port, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		return nil, fmt.Errorf("count connections: port: %w", err)
	}
	c := &Connections{port: fmt.Sprintf(":%04X", port), stop: make(chan struct{})}
	if c.look(); c.failure != nil {
		return nil, fmt.Errorf("count connections: %w", c.failure)
	}
	c.wait.Go(func() {
		for c.look() {
			select {
			case <-time.After(5 * time.Millisecond):
			case <-c.stop:
				return
			}
		}
	})
	return c, nil
}

// look counts once. It is false when that cannot be done.
func (c *Connections) look() bool {
	count := 0
	for _, file := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		table, err := os.ReadFile(file)
		if err != nil && !os.IsNotExist(err) { // without IPv6 there is one table
			c.mu.Lock()
			defer c.mu.Unlock()
			c.failure = err
			return false
		}
		for row := range strings.Lines(string(table)) {
			const established = "01"
			field := strings.Fields(row) // number, local address, remote address, state, …
			if len(field) > 3 && strings.HasSuffix(field[1], c.port) && field[3] == established {
				count++
			}
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now, c.most = count, max(c.most, count)
	return true
}

// Count is how many there are now, and how many there were at most.
func (c *Connections) Count() (now, most int, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now, c.most, c.failure
}

// Close ends the counting.
func (c *Connections) Close() {
	close(c.stop)
	c.wait.Wait()
}

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
