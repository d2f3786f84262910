//go:build linux

package harness

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// EnvBinary names a shardctl to test instead of building one, and EnvRecorder a recorder: several packages then share
// one build.
const (
	EnvBinary   = "SHARDCTL_E2E_BINARY"
	EnvRecorder = "SHARDCTL_E2E_RECORDER"
)

// Binaries are the programs under test.
type Binaries struct {
	Shardctl string
	Recorder string
}

// Build builds both programs into dir, from the module of the working directory, but for those that are named already.
func Build(ctx context.Context, dir string) (Binaries, error) {
	root, err := moduleRoot(ctx)
	if err != nil {
		return Binaries{}, err
	}
	bins := Binaries{Shardctl: os.Getenv(EnvBinary), Recorder: os.Getenv(EnvRecorder)}
	programs := map[string]*string{"./cmd/shardctl": &bins.Shardctl, "./test/e2e/recorder": &bins.Recorder}
	for pkg, program := range programs {
		if *program != "" {
			continue
		}
		*program = filepath.Join(dir, filepath.Base(pkg))
		if err := build(ctx, root, *program, pkg); err != nil {
			return Binaries{}, err
		}
	}
	return bins, readSources(root)
}

// readSources reads the directories that the programs are built from. Go's cache of test results sees what a test reads
// itself, and not what go build does: without this, a test would count as passed after a change of the program.
func readSources(root string) error {
	for _, dir := range []string{"cmd", "internal", "pkg", "test/e2e/recorder"} {
		err := filepath.WalkDir(filepath.Join(root, dir), func(_ string, _ fs.DirEntry, err error) error { return err })
		if err != nil {
			return fmt.Errorf("read the sources: %w", err)
		}
	}
	return nil
}

// BuildProgram builds one package of the module of the working directory, ./…, into dir and returns the program's path.
func BuildProgram(ctx context.Context, dir, pkg string) (string, error) {
	root, err := moduleRoot(ctx)
	if err != nil {
		return "", err
	}
	to := filepath.Join(dir, filepath.Base(pkg))
	return to, build(ctx, root, to, pkg)
}

func moduleRoot(ctx context.Context) (string, error) {
	mod, err := exec.CommandContext(ctx, "go", "env", "GOMOD").Output()
	if err != nil {
		return "", fmt.Errorf("find the module: %w", err)
	}
	return filepath.Dir(strings.TrimSpace(string(mod))), nil
}

// build leaves cgo as the environment has it, as the tests themselves are built: so Go compiles no package twice.
func build(ctx context.Context, root, to, pkg string) error {
	cmd := exec.CommandContext(ctx, "go", "build", "-o", to, pkg)
	cmd.Dir = root
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		return fmt.Errorf("go build %s: %s", pkg, out) // its words say it all
	case err != nil:
		return fmt.Errorf("go build %s: %w", pkg, err)
	}
	return nil
}

// BuildTagged builds shardctl with build tags, as another version, into dir and returns the program's path.
func BuildTagged(ctx context.Context, dir, version string, tags ...string) (string, error) {
	root, err := moduleRoot(ctx)
	if err != nil {
		return "", err
	}
	to := filepath.Join(dir, "shardctl-"+version)
	cmd := exec.CommandContext(
		ctx, "go", "build", "-tags", strings.Join(tags, ","), "-ldflags", "-X main.version="+version, "-o", to,
		"./cmd/shardctl",
	)
	cmd.Dir = root
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("go build -tags %v: %w: %s", tags, err, out)
	}
	return to, nil
}

// AnotherRevision copies a program into dir with some bytes more, which no program minds: a replica reports its
// revision by a hash of its file.
func AnotherRevision(program, dir, name string) (path string, err error) {
	from, err := os.Open(program)
	if err != nil {
		return "", fmt.Errorf("another revision: %w", err)
	}
	defer func() { _ = from.Close() }()
	path = filepath.Join(dir, "shardctl-"+name)
	to, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o755)
	if err != nil {
		return "", fmt.Errorf("another revision: %w", err)
	}
	_, err = io.Copy(to, from)
	if err == nil {
		_, err = to.WriteString(name)
	}
	if err := errors.Join(err, to.Close()); err != nil {
		return "", fmt.Errorf("another revision: %w", err)
	}
	return path, nil
}

// Variant is how a replica differs from the others of its cluster. The zero Variant does not.
type Variant struct {
	Program string         // default: the program under test
	Env     []string       // NAME=value, beside the others
	Fields  map[string]any // further fields of the cluster's configuration
	// Configure makes its configuration. Default: the cluster's.
	Configure func(server, admin string) (string, error)
}

// StartVariant is Start for a replica that differs.
func (c *Cluster) StartVariant(ctx context.Context, name string, v Variant, args ...string) (*Replica, error) {
	if v.Program == "" {
		v.Program = c.bins.Shardctl
	}
	if v.Configure == nil {
		v.Configure = c.configureWith(name, v.Fields)
	}
	f, err := c.prepare(ctx, name, v.Configure)
	if err != nil {
		return nil, err
	}
	r, err := startReplica(v.Program, f.config, f.log, append(c.mark(), v.Env...), args...)
	if err != nil {
		return nil, err
	}
	return c.joined(r, name, f), nil
}

// clockEnv names the file that sets the clock of a replica whose program was built with the tag testhooks.
const clockEnv = "SHARDCTL_TEST_CLOCK_FILE"

// WallClock is the wall clock of one replica, which shows the right time until it is set.
type WallClock struct{ file string }

// NewWallClock keeps the clock in a file of this path.
func NewWallClock(file string) *WallClock { return &WallClock{file} }

// Env is what a replica has this clock by.
func (w *WallClock) Env() string { return clockEnv + "=" + w.file }

// Set sets it ahead of the right time, or behind when off is negative.
func (w *WallClock) Set(off time.Duration) error {
	next := w.file + ".next"
	if err := os.WriteFile(next, fmt.Append(nil, off.Milliseconds()), 0o600); err != nil {
		return fmt.Errorf("set the clock: %w", err)
	}
	return os.Rename(next, w.file) // at once, so that half of it is never read
}
