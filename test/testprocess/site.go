//go:build unix

package testprocess

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/shardctl/shardctl/internal/process"
)

// Loopback is where servers listen, unless [Options] say otherwise.
const Loopback = "127.0.0.1"

// Site is where one server lives: it stays the same over all its processes.
type Site struct {
	Dir   string // absolute, with everything it writes
	Host  string // the address that it listens on
	Ports []int

	extra   []string            // lines for its configuration, after its kind's
	account *syscall.Credential // whom it runs as; nil: who runs this process
}

// Addr is HOST:PORT of the i-th port.
func (s *Site) Addr(i int) string { return net.JoinHostPort(s.Host, strconv.Itoa(s.Ports[i])) }

// Path is that of a file or directory of the server.
func (s *Site) Path(name string) string { return filepath.Join(s.Dir, name) }

// Extra are the lines of configuration of who asked for the server.
func (s *Site) Extra() []string { return s.extra }

// Write writes a configuration: the kind's lines, then those of who asked for the server.
func (s *Site) Write(name string, lines ...string) error {
	return s.WriteFile(name, []byte(strings.Join(slices.Concat(lines, s.extra), "\n")+"\n"))
}

// WriteFile writes a file as it is, which the server alone may read.
func (s *Site) WriteFile(name string, content []byte) error {
	if err := os.WriteFile(s.Path(name), content, 0o600); err != nil {
		return fmt.Errorf("configuration of the server: %w", err)
	}
	return s.own(s.Path(name))
}

// Output is all that the server's processes have printed, since it was opened first. It is empty before that.
func (s *Site) Output() []byte {
	text, err := os.ReadFile(s.Path(logName))
	if err != nil {
		return nil
	}
	return text
}

// Ports of servers lie below those that the kernel gives to clients. Otherwise a client that dials while the server
// is down may be given the server's own port, and the server could not come back.
const lowestPort, highestPort = 10_000, 32_000

// FreePorts are n ports that no one listens on. They are for servers that have to know of each other before they start:
// see [Options].
func FreePorts(ctx context.Context, n int) ([]int, error) { return freePorts(ctx, Loopback, n) }

func freePorts(ctx context.Context, host string, n int) ([]int, error) {
	ports := make([]int, 0, n)
	for range 1000 {
		if len(ports) == n {
			return ports, nil
		}
		port := lowestPort + rand.IntN(highestPort-lowestPort)
		l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", net.JoinHostPort(host, strconv.Itoa(port)))
		if err != nil {
			continue
		}
		defer func() { _ = l.Close() }() // all stay open until the end, so that no port comes twice
		ports = append(ports, port)
	}
	return nil, fmt.Errorf("find %d free ports from %d to %d on %s", n, lowestPort, highestPort, host)
}

// nobody is who runs [Unprivileged] software where this process is root.
const nobody = "nobody"

// accountFor is whom software runs as; nil: who runs this process.
func accountFor(s Software) (*syscall.Credential, error) {
	if _, refuses := s.(Unprivileged); !refuses || os.Geteuid() != 0 {
		return nil, nil //nolint:nilnil // no one else
	}
	found, err := user.Lookup(nobody)
	if err != nil {
		return nil, fmt.Errorf("whom to run a server as that refuses root: %w", err)
	}
	uid, err1 := strconv.ParseUint(found.Uid, 10, 32)
	gid, err2 := strconv.ParseUint(found.Gid, 10, 32)
	if err := errors.Join(err1, err2); err != nil {
		return nil, fmt.Errorf("user %s: %w", nobody, err)
	}
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
}

// MakeDir makes a directory of the server, which owns it. name is relative to the site's.
func (s *Site) MakeDir(name string) error {
	dir := s.Path(name)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("directory of the server: %w", err)
	}
	return s.own(dir)
}

// own gives a file or directory to whom the server runs as.
func (s *Site) own(path string) error {
	if s.account == nil {
		return nil
	}
	if err := os.Chown(path, int(s.account.Uid), int(s.account.Gid)); err != nil {
		return fmt.Errorf("give the server its file: %w", err)
	}
	return nil
}

// reachable lets another user pass through the temporary directories of tests on the way to the site. They are made for
// one user alone.
func (s *Site) reachable() error {
	if s.account == nil {
		return nil
	}
	temp := filepath.Clean(os.TempDir())
	for dir := filepath.Dir(s.Dir); dir != temp && strings.HasPrefix(dir, temp+"/"); dir = filepath.Dir(dir) {
		info, err := os.Stat(dir)
		if err == nil && info.Mode().Perm()&0o001 == 0 {
			err = os.Chmod(dir, info.Mode().Perm()|0o011)
		}
		if err != nil {
			return fmt.Errorf("let user %s pass through: %w", nobody, err)
		}
	}
	return nil
}

// Run runs a program to its end, as the user whom the server runs as, in its directory. The error has what it printed.
func (s *Site) Run(ctx context.Context, env []string, args ...string) error {
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	s.dress(cmd, env)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", filepath.Base(args[0]), err, strings.TrimSpace(string(out)))
	}
	return nil
}

// dress gives a command the site's directory, environment and user, and a process group that dies with this process.
func (s *Site) dress(cmd *exec.Cmd, env []string) {
	cmd.Dir, cmd.SysProcAttr = s.Dir, process.OwnGroup()
	cmd.Env = os.Environ()
	if s.account != nil {
		cmd.SysProcAttr.Credential = s.account
		cmd.Env = append(cmd.Env, "HOME="+s.Dir, "TMPDIR="+s.Dir, "USER="+nobody, "LOGNAME="+nobody)
	}
	cmd.Env = append(cmd.Env, env...)
}
