//go:build linux

package compare

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/shardctl/shardctl/bench/internal/lab"
)

// build is one revision, built.
type build struct {
	name     string
	shardctl string
	balancer string // the test program of package balancer
}

// buildAt builds a revision in a work tree of its own, which it removes again.
func buildAt(ctx context.Context, l *lab.Lab, revision string) (build, error) {
	short, err := output(ctx, ".", "git", "rev-parse", "--short", "--verify", revision+"^{commit}")
	if err != nil {
		return build{}, err
	}
	tree := filepath.Join(l.Work, "tree-"+short)
	if _, err := output(ctx, ".", "git", "worktree", "add", "--detach", tree, revision); err != nil {
		return build{}, err
	}
	defer func() { // what fails here, git worktree prune does
		_, _ = output(context.WithoutCancel(ctx), ".", "git", "worktree", "remove", "--force", tree)
	}()
	return buildIn(ctx, l, tree, short)
}

// buildIn builds the tree in a directory.
func buildIn(ctx context.Context, l *lab.Lab, tree, name string) (build, error) {
	b := build{name: name, shardctl: filepath.Join(l.Work, "shardctl-"+name), balancer: filepath.Join(l.Work,
		"balancer-"+name)}
	if _, err := output(ctx, tree, "go", "build", "-o", b.shardctl, "./cmd/shardctl"); err != nil {
		return b, err
	}
	_, err := output(ctx, tree, "go", "test", "-c", "-o", b.balancer, "./pkg/balancer")
	return b, err
}

// output runs a command in a directory and returns what it prints.
func output(ctx context.Context, dir, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...) //nolint:gosec // git, go, and programs built by it
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	var errs strings.Builder
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w: %s%s", filepath.Base(name), strings.Join(args, " "), err, errs.String(), out)
	}
	return strings.TrimSpace(string(out)), nil
}
