//go:build linux

package servers

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// find returns the path of a program: from a variable, from PATH, or made once in the cache under the name of its
// version.
func find(ctx context.Context, variable string, names []string, version string, produce func(ctx context.Context, dir,
	target string) error,
) (string, error) {
	if path := os.Getenv(variable); path != "" {
		return path, nil
	}
	for _, name := range names {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = os.TempDir() // no HOME, as in some build containers
	}
	dir := filepath.Join(cache, "shardctl-bench")
	if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // a cache of public files
		return "", fmt.Errorf("cache of servers: %w", err)
	}
	binary := filepath.Join(dir, names[0]+"-"+version)
	unlock, err := lock(ctx, binary+".lock")
	if err != nil {
		return "", err
	}
	defer unlock()
	if _, err := os.Stat(binary); err == nil { // it gets this name only when it is whole
		return binary, nil
	}
	work, err := os.MkdirTemp(dir, "make-")
	if err != nil {
		return "", fmt.Errorf("cache of servers: %w", err)
	}
	defer func() { _ = os.RemoveAll(work) }()
	made := filepath.Join(work, "made")
	if err := produce(ctx, work, made); err != nil {
		return "", fmt.Errorf("%s %s (%s names one that is there): %w", names[0], version, variable, err)
	}
	return binary, os.Rename(made, binary)
}

// lock waits for a file's lock, which the kernel frees when the process ends: one process makes a server, others wait.
func lock(ctx context.Context, path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600) //nolint:gosec // a path this package made
	if err != nil {
		return nil, fmt.Errorf("cache of servers: %w", err)
	}
	for {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return func() { _ = f.Close() }, nil
		}
		select {
		case <-ctx.Done():
			_ = f.Close()
			return nil, context.Cause(ctx)
		case <-time.After(100 * time.Millisecond):
		}
	}
}
