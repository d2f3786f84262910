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

	"github.com/shardctl/shardctl/internal/toolcache"
)

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
		text, err := os.ReadFile(filepath.Join(dir, name)) //nolint:gosec // of this repository
		if err != nil {
			return "", fmt.Errorf("module of %s: %w", m.Kind, err)
		}
		_, _ = state.Write(text)
	}
	name := filepath.Join("shardctl-test", m.Dir+"-"+hex.EncodeToString(state.Sum(nil)[:6]))
	return toolcache.Program(ctx, name, func(ctx context.Context, _, target string) error {
		build := exec.CommandContext(ctx, "go", "build", "-o", target, m.Package) //nolint:gosec // our own arguments
		build.Dir, build.Env = dir, append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=", "GOWORK=off")
		if out, err := build.CombinedOutput(); err != nil {
			return Missing(m.Kind, "its module does not build: %w: %s", err, bytes.TrimSpace(out))
		}
		return nil
	})
}

func (m Module) find(ctx context.Context) (string, error) {
	list := exec.CommandContext(ctx, "go", "list", "-f", "{{.Dir}}", m.Parent) //nolint:gosec // our own arguments
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
