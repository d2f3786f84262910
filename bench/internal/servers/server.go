//go:build linux

package servers

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/shardctl/shardctl/internal/process"
)

// A Server is one process that answers on the loopback interface until Close.
type Server struct {
	Addr    string // host:port
	Version string
	Token   string // kube-apiserver: the bearer token of who may do everything

	log  string
	cmd  *exec.Cmd
	done chan struct{} // closed when the process has ended
	more []*Server     // closed after it

	closed sync.Once
}

const startLimit = time.Minute

// thread starts all servers. It stays, so that they end with this process: nothing is left when that is killed.
var thread = process.NewThread()

// start starts a program with its output in dir/NAME.log, and waits until ready says that it answers.
func start(ctx context.Context, dir string, s *Server, ready func(context.Context) error, program string,
	args ...string,
) (*Server, error) {
	s.log = filepath.Join(dir, filepath.Base(program)+".log")
	out, err := os.Create(s.log)
	if err != nil {
		return nil, err
	}
	defer func() { _ = out.Close() }()                                        // the process has its own
	s.cmd = exec.CommandContext(context.WithoutCancel(ctx), program, args...) //nolint:gosec // one of this package
	s.cmd.Dir, s.cmd.Stdout, s.cmd.Stderr, s.cmd.SysProcAttr = dir, out, out, process.OwnGroup()
	if err := thread.Start(s.cmd); err != nil {
		return nil, fmt.Errorf("start %s: %w", program, err)
	}
	s.done = make(chan struct{})
	go func() {
		_ = s.cmd.Wait() // its log says why it ended
		close(s.done)
	}()
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	for {
		err := ready(ctx)
		if err == nil {
			return s, nil
		}
		select {
		case <-time.After(50 * time.Millisecond):
			continue
		case <-s.done:
		case <-ctx.Done():
		}
		s.Close()
		text, _ := os.ReadFile(s.log)
		return nil, fmt.Errorf("%s does not answer: %w\n%s", filepath.Base(program), err, tail(text))
	}
}

// Close kills the server: its data are of no use any more. It may be called again.
func (s *Server) Close() {
	s.closed.Do(s.end)
}

func (s *Server) end() {
	_ = s.cmd.Process.Kill() // it may have ended
	<-s.done
	for _, other := range s.more {
		other.Close()
	}
}

// versionOf is the first word of what a program says of itself that has a digit after the prefix.
func versionOf(ctx context.Context, program, prefix string) string {
	out, err := exec.CommandContext(ctx, program, "--version").Output()
	if err != nil {
		return "?"
	}
	_, rest, found := strings.Cut(string(out), prefix)
	fields := strings.Fields(rest)
	if !found || len(fields) == 0 {
		return "?"
	}
	return strings.TrimPrefix(fields[0], "v")
}
