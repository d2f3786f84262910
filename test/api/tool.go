//go:build linux

package main

import (
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/shardctl/shardctl/test/toolcache"
)

// requirements are schemathesis and all that it needs, with hashes. They are made of requirements.in by
//
//	pip-compile --generate-hashes --strip-extras --no-header -o requirements.txt requirements.in
//
//go:embed requirements.txt
var requirements []byte

// schemathesis returns the Python of a virtual environment that holds it. It is made once, in the user's cache.
func schemathesis(ctx context.Context) (python string, err error) {
	system, err := exec.LookPath("python3")
	if err != nil {
		return "", errors.New("python3 is not installed: schemathesis needs Python 3.10 or newer, with venv and pip")
	}
	version, err := exec.CommandContext(ctx, system, "-c", "import sys; print('%d.%d' % sys.version_info[:2])").Output()
	if err != nil {
		return "", fmt.Errorf("python3 does not run: %w", err)
	}
	sum := sha256.Sum256(requirements)
	name := "schemathesis-py" + strings.TrimSpace(string(version)) + "-" + hex.EncodeToString(sum[:6])
	dir, err := toolcache.Program(ctx, filepath.Join("shardctl-test", name), func(
		ctx context.Context, dir, target string,
	) error {
		fmt.Fprintln(os.Stdout, "installing schemathesis into the cache (about a minute, once)")
		return install(ctx, system, dir, target)
	})
	return filepath.Join(dir, "bin", "python"), err
}

// install makes a virtual environment at target. It works under another path too: only its scripts do not.
func install(ctx context.Context, system, dir, target string) error {
	list := filepath.Join(dir, "requirements.txt")
	if err := os.WriteFile(list, requirements, 0o600); err != nil {
		return err
	}
	if out, err := exec.CommandContext(ctx, system, "-m", "venv", target).CombinedOutput(); err != nil {
		return fmt.Errorf("python3 -m venv: %w: %s (on Debian, install python3-venv)", err, out)
	}
	pip := exec.CommandContext(ctx, filepath.Join(target, "bin", "python"), "-m", "pip", "install",
		"--quiet", "--disable-pip-version-check", "--only-binary=:all:", "--require-hashes", "--requirement", list)
	if out, err := pip.CombinedOutput(); err != nil {
		return fmt.Errorf("pip install: %w: %s", err, out)
	}
	return nil
}

// build makes the program of this tree.
func build(ctx context.Context, dir string) (string, error) {
	program := filepath.Join(dir, "shardctl")
	cmd := exec.CommandContext(ctx, "go", "build", "-o", program, "./cmd/shardctl")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build: %w: %s (run this in the root of the repository)", err, out)
	}
	return program, nil
}
