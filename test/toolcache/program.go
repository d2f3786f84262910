//go:build unix

package toolcache

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/shardctl/shardctl/internal/clock"
)

// Program returns the path of a program in the user's cache directory. name is its path there, with its version in it.
// Where it is not there yet, produce makes it at target, and may use dir, which is removed afterwards. Several
// processes may ask at once: one makes it, the others wait.
func Program(ctx context.Context, name string, produce func(ctx context.Context, dir, target string) error) (
	string, error,
) {
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = os.TempDir() // no HOME, as in some build containers
	}
	program := filepath.Join(cache, name)
	if present(program) {
		return program, nil
	}
	dir := filepath.Dir(program)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("cache of %s: %w", name, err)
	}
	unlock, err := Lock(ctx, program+".lock")
	if err != nil {
		return "", err
	}
	defer unlock()
	if present(program) { // another process was first
		return program, nil
	}
	work, err := os.MkdirTemp(dir, "make-")
	if err != nil {
		return "", fmt.Errorf("cache of %s: %w", name, err)
	}
	defer func() { _ = os.RemoveAll(work) }()
	made := filepath.Join(work, "made")
	if err := produce(ctx, work, made); err != nil {
		return "", err
	}
	if err := os.Rename(made, program); err != nil {
		return "", fmt.Errorf("cache of %s: %w", name, err)
	}
	return program, nil
}

func present(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// Lock waits for an exclusive lock on a file, until ctx ends. The kernel frees it when the process ends.
func Lock(ctx context.Context, path string) (unlock func(), err error) {
	for {
		unlock, err = TryLock(path)
		if !errors.Is(err, ErrLocked) {
			return unlock, err
		}
		if err := clock.Sleep(ctx, 100*time.Millisecond); err != nil {
			return nil, fmt.Errorf("lock %s: %w", path, err)
		}
	}
}

// ErrLocked says that a file is locked by somebody else.
var ErrLocked = errors.New("it is locked")

// TryLock is [Lock] without waiting. Where somebody else holds the lock, the error is [ErrLocked].
func TryLock(path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if err == nil {
		return func() { _ = f.Close() }, nil
	}
	_ = f.Close()
	if errors.Is(err, unix.EWOULDBLOCK) || errors.Is(err, unix.EINTR) {
		err = ErrLocked
	}
	return nil, fmt.Errorf("lock %s: %w", path, err)
}
