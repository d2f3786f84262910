//go:build linux

package harness

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
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
	return bins, nil
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

func build(ctx context.Context, root, to, pkg string) error {
	cmd := exec.CommandContext(ctx, "go", "build", "-o", to, pkg)
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
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
