//go:build unix

package testbroker

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

// nats is a NATS server with JetStream.
type nats struct{ server string }

func (n *nats) ports() int { return 1 }

func (n *nats) provide(ctx context.Context) (err error) {
	n.server, err = natsServer(ctx)
	return err
}

func (n *nats) prepare(_ context.Context, s *site) error {
	return s.write("nats.conf",
		`listen: "`+s.addr(0)+`"`,
		`jetstream: {store_dir: "`+s.path("jetstream")+`", max_file_store: 10GB}`,
	)
}

func (n *nats) commands(s *site) []command {
	return []command{{args: []string{n.server, "-c", s.path("nats.conf")}}}
}

// ready waits for the line that the server greets with: streams have been recovered by then.
func (n *nats) ready(ctx context.Context, s *site) error {
	line, err := askLine(ctx, s.addr(0), "")
	if err != nil {
		return err
	}
	if !strings.HasPrefix(line, "INFO ") {
		return fmt.Errorf("no NATS: %q", line)
	}
	return nil
}

// natsServer returns the path of nats-server in the user's cache. It is built there from the module that pins it, once
// for each state of that module and version of Go.
func natsServer(ctx context.Context) (string, error) {
	module, err := natsModule(ctx)
	if err != nil {
		return "", err
	}
	state := sha256.New()
	_, _ = state.Write([]byte(runtime.Version()))
	for _, name := range []string{"go.mod", "go.sum"} {
		text, err := os.ReadFile(filepath.Join(module, name)) //nolint:gosec // of this repository
		if err != nil {
			return "", fmt.Errorf("module of nats-server: %w", err)
		}
		_, _ = state.Write(text)
	}
	name := filepath.Join("shardctl-test", "nats-server-"+hex.EncodeToString(state.Sum(nil)[:6]))
	return toolcache.Program(ctx, name, func(ctx context.Context, _, target string) error {
		build := exec.CommandContext(ctx, "go", "build", "-o", target, //nolint:gosec // our own arguments
			"github.com/nats-io/nats-server/v2")
		build.Dir, build.Env = module, append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=", "GOWORK=off")
		if out, err := build.CombinedOutput(); err != nil {
			return missing(KindNATS, "its module does not build: %w: %s", err, bytes.TrimSpace(out))
		}
		return nil
	})
}

// natsModule is the directory of the module that pins nats-server: natsserver beside this package.
func natsModule(ctx context.Context) (string, error) {
	list := exec.CommandContext(ctx, "go", "list", "-f", "{{.Dir}}", "github.com/shardctl/shardctl/internal/testbroker")
	var stderr strings.Builder
	list.Stderr = &stderr
	out, err := list.Output()
	if errors.Is(err, exec.ErrNotFound) {
		return "", missing(KindNATS, "the go command is not in PATH: %w", err)
	}
	if err != nil {
		return "", fmt.Errorf("find the module of nats-server: %w: %s (run this within the repository)", err, stderr.String())
	}
	return filepath.Join(strings.TrimSpace(string(out)), "natsserver"), nil
}
