//go:build unix

package testprocess

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"

	"github.com/shardctl/shardctl/test/toolcache"
)

// ErrMissing says that a server cannot be provided. Its text goes on with what to install.
var ErrMissing = errors.New("no server for the tests")

// Software is the programs of one kind of server. Its methods know nothing of a running process.
type Software interface {
	// Provide finds the programs or fetches them. Its error wraps [ErrMissing] when something is to be installed.
	Provide(ctx context.Context) error
	// Ports is how many ports it listens on; the first is that of clients.
	Ports() int
	// Prepare writes what the programs read, before each start.
	Prepare(ctx context.Context, s *Site) error
	// Commands are the processes, in the order of their start; the last is the server.
	Commands(s *Site) []Command
	// Ready returns nil once clients are served. Its ctx ends after a second; it is called again until it returns nil.
	Ready(ctx context.Context, s *Site) error
}

// Unprivileged is a [Software] that refuses to run as root. Where this process is root, it runs as the user nobody, who
// also owns its directory.
type Unprivileged interface {
	Software
	Unprivileged()
}

// Cleaner is a [Software] that leaves more than files behind when it is killed.
type Cleaner interface {
	Software
	// Clean removes that once the processes have ended for good. Not called where the process of the test was killed.
	Clean(s *Site)
}

// Command is one process to start.
type Command struct {
	Args []string       // the program first
	Env  []string       // added to that of this process
	Stop syscall.Signal // asks for an orderly end; 0 means SIGTERM
}

// systemDirs are where system programs are that need not be in PATH.
var systemDirs = []string{"", "/usr/sbin", "/sbin", "/usr/local/sbin"}

// Program finds the first of these programs in PATH or in the directories of system programs. kind is the server that
// needs it, and debian the package that has it.
func Program(kind, debian string, names ...string) (string, error) {
	return ProgramIn(systemDirs, kind, debian, names...)
}

// ProgramIn is [Program] for programs that are in these directories; the empty one means PATH. Directories may be
// patterns, of which the last match in order counts: /usr/lib/postgresql/*/bin.
func ProgramIn(dirs []string, kind, debian string, names ...string) (string, error) {
	for _, name := range names {
		for _, dir := range dirs {
			if matches, err := filepath.Glob(dir); dir != "" && err == nil && len(matches) > 0 {
				dir = matches[len(matches)-1]
			}
			if path, err := exec.LookPath(filepath.Join(dir, name)); err == nil {
				return path, nil
			}
		}
	}
	return "", Missing(kind, "%s is not installed (Debian: apt-get install --no-install-recommends %s)",
		strings.Join(names, " or "), debian)
}

// Missing is an error that wraps [ErrMissing].
func Missing(kind, format string, args ...any) error {
	return fmt.Errorf("%w: %s: %w", ErrMissing, kind, fmt.Errorf(format, args...))
}

// policyFile is what Debian's packages ask before they start their services.
const policyFile = "/usr/sbin/policy-rc.d"

// Install calls provide, and where that lacks something it installs Debian's packages and calls it again. Packages that
// are installed stay as they are. Services of packages are not started: tests start servers of their own. It needs root
// on Debian; elsewhere the error says what is missing.
func Install(ctx context.Context, packages []string, provide func(context.Context) error) error {
	err := provide(ctx)
	if err == nil || !errors.Is(err, ErrMissing) {
		return err
	}
	apt, notFound := exec.LookPath("apt-get")
	if os.Geteuid() != 0 || notFound != nil {
		return fmt.Errorf("%w\n(root on Debian gets the packages installed by this command)", err)
	}
	allow, err := forbidServices()
	if err != nil {
		return err
	}
	defer allow()
	for _, args := range [][]string{
		{"update", "-qq"}, append([]string{"install", "-y", "-qq", "--no-install-recommends"}, packages...),
	} {
		cmd := exec.CommandContext(ctx, apt, args...)
		cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
		cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
		if err := cmd.Run(); err != nil {
			return fmt.Errorf("apt-get %s: %w", args[0], err)
		}
	}
	return provide(ctx)
}

// forbidServices has packages start no service until allow is called. A policy that is there stays.
func forbidServices() (allow func(), err error) {
	f, err := os.OpenFile(policyFile, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o755)
	if errors.Is(err, os.ErrExist) {
		return func() {}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("keep packages from starting services: %w", err)
	}
	_, err = f.WriteString("#!/bin/sh\nexit 101\n")
	if err := errors.Join(err, f.Close()); err != nil {
		return nil, errors.Join(fmt.Errorf("keep packages from starting services: %w", err), os.Remove(policyFile))
	}
	return func() { _ = os.Remove(policyFile) }, nil
}

// Module is a Go program that a module of its own pins, so that no one else compiles it. The module is a directory with
// a go.mod and a go.sum, within this repository.
type Module struct {
	Kind    string // the server that it is
	Parent  string // import path of the package beside which the module's directory is
	Dir     string // of the module, within that package's
	Package string // import path of the program
}

// Program returns the path of the program in the user's cache. It is built there once for each state of its module and
// version of Go.
func (m Module) Program(ctx context.Context) (string, error) {
	dir, err := m.find(ctx)
	if err != nil {
		return "", err
	}
	state := sha256.New()
	_, _ = state.Write([]byte(runtime.Version()))
	for _, name := range []string{"go.mod", "go.sum"} {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return "", fmt.Errorf("module of %s: %w", m.Kind, err)
		}
		_, _ = state.Write(text)
	}
	name := filepath.Join("shardctl-test", m.Dir+"-"+hex.EncodeToString(state.Sum(nil)[:6]))
	return toolcache.Program(ctx, name, func(ctx context.Context, _, target string) error {
		build := exec.CommandContext(ctx, "go", "build", "-o", target, m.Package)
		build.Dir, build.Env = dir, append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=", "GOWORK=off")
		if out, err := build.CombinedOutput(); err != nil {
			return Missing(m.Kind, "its module does not build: %w: %s", err, bytes.TrimSpace(out))
		}
		return nil
	})
}

func (m Module) find(ctx context.Context) (string, error) {
	list := exec.CommandContext(ctx, "go", "list", "-f", "{{.Dir}}", m.Parent)
	var stderr strings.Builder
	list.Stderr = &stderr
	out, err := list.Output()
	if errors.Is(err, exec.ErrNotFound) {
		return "", Missing(m.Kind, "the go command is not in PATH: %w", err)
	}
	if err != nil {
		return "", fmt.Errorf("find the module of %s: %w: %s (run this within the repository)", m.Kind, err,
			stderr.String())
	}
	return filepath.Join(strings.TrimSpace(string(out)), m.Dir), nil
}
