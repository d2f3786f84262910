package application

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// Listen listens at unix:/PATH or HOST:PORT. A socket is for its user alone: its mode is 0600. It is removed when the
// listener is closed. Its directory is made, with mode 0700, in a parent that exists. One that is there must belong to
// this user or to root, and be writable by its owner alone.
func Listen(ctx context.Context, address string) (net.Listener, error) {
	var lc net.ListenConfig
	path, socket := strings.CutPrefix(address, "unix:")
	if !socket {
		return lc.Listen(ctx, "tcp", address)
	}
	if err := ensureDirectory(filepath.Dir(path)); err != nil {
		return nil, err
	}
	if err := removeStale(ctx, path); err != nil {
		return nil, err
	}
	// Others must not connect before the mode is set, so the socket gets its name at the end.
	fresh := fmt.Sprintf("%s.%d", path, os.Getpid())
	_ = os.Remove(fresh) // of a process of that number that was killed
	listener, err := lc.Listen(ctx, "unix", fresh)
	if err != nil {
		return nil, err
	}
	s := socketListener{listener.(*net.UnixListener), path} //nolint:forcetypeassert // it is of that network
	s.SetUnlinkOnClose(false)
	if err := errors.Join(os.Chmod(fresh, 0o600), os.Rename(fresh, path)); err != nil {
		_ = os.Remove(fresh)
		return nil, errors.Join(err, listener.Close())
	}
	return s, nil
}

// socketListener removes its socket when it is closed.
type socketListener struct {
	*net.UnixListener

	path string
}

func (l socketListener) Close() error {
	_ = os.Remove(l.path) // another may be there already
	return l.UnixListener.Close()
}

// ensureDirectory makes a directory that is not there: a volume of a pod is writable by all, and this one is not. It
// refuses one in which others could listen at the path before this process does: they would be taken for the replica.
func ensureDirectory(dir string) error {
	info, err := os.Stat(dir)
	if errors.Is(err, fs.ErrNotExist) {
		if err = os.Mkdir(dir, 0o700); err == nil || !errors.Is(err, fs.ErrExist) {
			return err
		}
		info, err = os.Stat(dir)
	}
	if err != nil {
		return err
	}
	owner, user := info.Sys().(*syscall.Stat_t).Uid, os.Geteuid() //nolint:forcetypeassert // what os.Stat gives on Unix
	if owner != 0 && int(owner) != user {
		return fmt.Errorf("directory %s belongs to user %d: must belong to user %d, whom shardctl runs as, or to root",
			dir, owner, user)
	}
	if mode := info.Mode(); mode.Perm()&0o022 != 0 {
		return fmt.Errorf("directory %s has mode %v: must not be writable by group or others, who could listen there "+
			"in the replica's place; name one of its own, as unix:%s", dir, mode, filepath.Join(dir, "shardctl", "app.sock"))
	}
	return nil
}

// removeStale removes a socket on which no process listens.
func removeStale(ctx context.Context, path string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.Mode()&fs.ModeSocket == 0:
		return fmt.Errorf("%s exists and is no socket: must be free", path)
	}
	conn, err := (&net.Dialer{Timeout: time.Second}).DialContext(ctx, "unix", path)
	if err == nil {
		_ = conn.Close()
		return fmt.Errorf("a process listens at %s already: %w", path, syscall.EADDRINUSE)
	}
	if !errors.Is(err, syscall.ECONNREFUSED) && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.Remove(path); !errors.Is(err, fs.ErrNotExist) { // its process may remove it meanwhile
		return err
	}
	return nil
}
