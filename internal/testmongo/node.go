//go:build unix

package testmongo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"
)

// errExited says that a mongod ended by itself.
var errExited = errors.New("mongod exited")

// A Node is one mongod. Its methods may be called concurrently.
type Node struct {
	rs    *ReplicaSet
	index int
	port  int

	mu   sync.Mutex
	cmd  *exec.Cmd
	done chan struct{} // closed once cmd has ended
}

// PID is the process ID of the mongod last started. (With a container: of the client that started it.)
func (n *Node) PID() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.cmd.Process.Pid
}

// Addr is HOST:PORT, by default on the loopback interface.
func (n *Node) Addr() string { return net.JoinHostPort(n.rs.opts.host(), strconv.Itoa(n.port)) }

// Kill ends the process as kill -9 does, and waits until it is gone. The data stays.
func (n *Node) Kill() error {
	if err := n.signal(syscall.SIGKILL); err != nil {
		return err
	}
	n.mu.Lock()
	done := n.done
	n.mu.Unlock()
	if done != nil {
		<-done
	}
	return nil
}

// Stop freezes the process: its connections stay open and nothing answers. It returns once all threads stand still.
func (n *Node) Stop() error {
	if err := n.signal(syscall.SIGSTOP); err != nil {
		return err
	}
	for !n.frozen() {
		time.Sleep(time.Millisecond) // the signal is on its way, and there is nothing that reports it
	}
	return nil
}

// frozen says whether every thread is stopped, as far as /proc shows.
func (n *Node) frozen() bool {
	if !n.rs.machine.local {
		return true
	}
	stats, _ := filepath.Glob("/proc/" + strconv.Itoa(n.PID()) + "/task/*/stat")
	for _, path := range stats {
		stat, err := os.ReadFile(path) //nolint:gosec // of our own child
		if err == nil && !bytes.Contains(stat, []byte(") T ")) {
			return n.ended()
		}
	}
	return true
}

// Cont lets a stopped process go on.
func (n *Node) Cont() error { return n.signal(syscall.SIGCONT) }

// Restart kills the process, if it runs, and starts it again on the same data and port. It returns once it takes
// connections.
func (n *Node) Restart(ctx context.Context) error {
	if err := n.Kill(); err != nil {
		return err
	}
	if err := n.start(); err != nil {
		return err
	}
	return n.waitUp(ctx)
}

// signal sends sig to the process; one that has ended is none of its business.
func (n *Node) signal(sig syscall.Signal) error {
	if n.ended() {
		return nil
	}
	err := n.rs.machine.signal(n.rs.life, n, sig)
	if err != nil && !n.ended() {
		return fmt.Errorf("signal %s to mongod on port %d: %w", sig, n.port, err)
	}
	return nil
}

func (n *Node) ended() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.done == nil {
		return true // it never started
	}
	select {
	case <-n.done:
		return true
	default:
		return false
	}
}

func (n *Node) start() error {
	log, err := os.OpenFile(n.logFile(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("log of mongod: %w", err)
	}
	defer func() { _ = log.Close() }() // the child has its own
	args := n.args()
	if n.rs.machine.local {
		if err := os.MkdirAll(n.dataDir(), 0o700); err != nil {
			return fmt.Errorf("data of mongod: %w", err)
		}
		if err := n.writeFiles(); err != nil {
			return err
		}
	}
	cmd := n.rs.machine.command(n.rs.life, n, args...)
	cmd.Stdout, cmd.Stderr, cmd.SysProcAttr = log, log, procAttr()
	if err := n.rs.thread.Start(cmd); err != nil {
		return fmt.Errorf("start mongod: %w", err)
	}
	done := make(chan struct{})
	n.mu.Lock()
	n.cmd, n.done = cmd, done
	n.mu.Unlock()
	go func() {
		_ = cmd.Wait() // how it ended is in its log
		close(done)
	}()
	return nil
}

// args keep mongod small and quick: a small cache and oplog, no diagnostics, test commands for fail points.
func (n *Node) args() []string {
	args := []string{
		"--port", strconv.Itoa(n.port), "--bind_ip", n.rs.machine.bind, "--dbpath", n.dataDir(),
		"--pidfilepath", filepath.Join(n.dataDir(), "pid"), "--nounixsocket", "--wiredTigerCacheSizeGB", "0.25",
	}
	if !n.rs.opts.Standalone {
		args = append(args, "--replSet", replicaSetName, "--oplogSize", "128")
	}
	switch {
	case n.rs.key != "" && n.rs.opts.Standalone: // a key would have it expect a set
		args = append(args, "--auth")
	case n.rs.key != "":
		args = append(args, "--auth", "--keyFile", n.keyFile())
	}
	if n.rs.opts.TLS != nil {
		args = append(args, "--tlsMode", "preferTLS", "--tlsCertificateKeyFile", n.identityFile(),
			"--tlsCAFile", n.authoritiesFile())
	}
	params := map[string]string{"enableTestCommands": "1", "diagnosticDataCollectionEnabled": "false"}
	maps.Copy(params, n.rs.opts.ExtraParams)
	for _, k := range slices.Sorted(maps.Keys(params)) {
		args = append(args, "--setParameter", k+"="+params[k])
	}
	return append(args, n.rs.opts.Args...)
}

func (n *Node) dataDir() string {
	return filepath.Join(n.rs.machine.dir, "data", "n"+strconv.Itoa(n.index))
}

func (n *Node) logFile() string {
	return filepath.Join(n.rs.dir, "logs", "n"+strconv.Itoa(n.index)+".log")
}

// waitUp waits until the node takes connections.
func (n *Node) waitUp(ctx context.Context) error {
	for {
		conn, err := (&net.Dialer{Timeout: time.Second}).DialContext(ctx, "tcp", n.Addr())
		if err == nil {
			return conn.Close()
		}
		n.mu.Lock()
		done := n.done
		n.mu.Unlock()
		select {
		case <-done:
			return fmt.Errorf("%w: port %d", errExited, n.port)
		case <-ctx.Done():
			return fmt.Errorf("mongod on port %d does not take connections: %w", n.port, context.Cause(ctx))
		case <-time.After(20 * time.Millisecond):
		}
	}
}
