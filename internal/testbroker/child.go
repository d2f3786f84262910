//go:build unix

package testbroker

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/shardctl/shardctl/internal/process"
)

// logName is the file with all that a broker's processes print.
const logName = "out.log"

// child is one process of a broker, and its group.
type child struct {
	cmd  *exec.Cmd
	done chan struct{} // closed once it has ended
	err  error         // how; read it after done
}

// startChild starts a process whose output goes to the site's log.
func startChild(thread *process.Thread, s *site, c command) (*child, error) {
	log, err := os.OpenFile(s.path(logName), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("log of the broker: %w", err)
	}
	defer func() { _ = log.Close() }() // the child has its own
	// No context: only Kill and Stop end it, and the death of this process.
	cmd := exec.Command(c.args[0], c.args[1:]...) //nolint:gosec,noctx // programs of this package's choice
	cmd.Dir, cmd.Env = s.dir, append(os.Environ(), c.env...)
	cmd.Stdout, cmd.Stderr, cmd.SysProcAttr = log, log, procAttr()
	if err := thread.Start(cmd); err != nil {
		return nil, fmt.Errorf("start %s: %w", c.args[0], err)
	}
	started := &child{cmd: cmd, done: make(chan struct{})}
	go func() {
		started.err = cmd.Wait()
		if started.err == nil {
			started.err = fmt.Errorf("%s ended with status 0", filepath.Base(c.args[0]))
		}
		close(started.done)
	}()
	return started, nil
}

func (c *child) pid() int { return c.cmd.Process.Pid }

func (c *child) ended() bool {
	select {
	case <-c.done:
		return true
	default:
		return false
	}
}

// signal reaches the process's group. What has ended is none of its business.
func (c *child) signal(sig syscall.Signal) {
	if !c.ended() {
		_ = syscall.Kill(-c.pid(), sig)
	}
}

// waitFrozen waits until every thread is stopped, as far as /proc shows.
func (c *child) waitFrozen() {
	for !c.frozen() {
		time.Sleep(time.Millisecond) // the signal is on its way, and there is nothing that reports it
	}
}

func (c *child) frozen() bool {
	stats, _ := filepath.Glob("/proc/" + strconv.Itoa(c.pid()) + "/task/*/stat")
	for _, path := range stats {
		stat, err := os.ReadFile(path) //nolint:gosec // of our own child
		if err == nil && !bytes.Contains(stat, []byte(") T ")) {
			return c.ended()
		}
	}
	return true
}

// makeDir makes the directory of a broker.
func makeDir(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("directory of the broker: %w", err)
	}
	return nil
}

// LogTail is the last lines that the broker printed, to be shown when a test fails.
func (b *Server) LogTail(lines int) string {
	text, err := os.ReadFile(b.site.path(logName))
	if err != nil {
		return ""
	}
	all := bytes.Split(bytes.TrimSpace(text), []byte("\n"))
	var out strings.Builder
	fmt.Fprintf(&out, "\n--- %s at %s", b.kind, b.Addr())
	for _, line := range all[max(0, len(all)-lines):] {
		fmt.Fprintf(&out, "\n%s", line)
	}
	return out.String()
}
