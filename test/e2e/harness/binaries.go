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

// EnvBinary names a shardctl to test instead of building one.
const EnvBinary = "SHARDCTL_E2E_BINARY"

// Binaries are the programs under test.
type Binaries struct {
	Shardctl string
	Recorder string
}

// Build builds both programs into dir, from the module of the working directory.
func Build(ctx context.Context, dir string) (Binaries, error) {
	mod, err := exec.CommandContext(ctx, "go", "env", "GOMOD").Output()
	if err != nil {
		return Binaries{}, fmt.Errorf("find the module: %w", err)
	}
	root := filepath.Dir(strings.TrimSpace(string(mod)))
	bins := Binaries{Shardctl: os.Getenv(EnvBinary), Recorder: filepath.Join(dir, "recorder")}
	if err := build(ctx, root, bins.Recorder, "./test/e2e/recorder"); err != nil {
		return Binaries{}, err
	}
	if bins.Shardctl != "" {
		return bins, nil
	}
	bins.Shardctl = filepath.Join(dir, "shardctl")
	return bins, build(ctx, root, bins.Shardctl, "./cmd/shardctl")
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
