package sqlstore

import (
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/shardctl/shardctl/pkg/elect/store"
)

// Scheme is what a store's URI begins with: sqlite:PATH.
const Scheme = "sqlite:"

// ParseURI returns the path in a URI: sqlite:NAME is relative to the working directory, sqlite:/NAME and sqlite:///NAME are
// absolute. The path is taken as it is, without escapes. Errors wrap [store.ErrInvalid].
func ParseURI(uri string) (string, error) {
	path, ok := strings.CutPrefix(uri, Scheme)
	if !ok {
		return "", fmt.Errorf("store URI %q: %w: want %sPATH", uri, store.ErrInvalid, Scheme)
	}
	if rest, slashes := strings.CutPrefix(path, "//"); slashes {
		if !strings.HasPrefix(rest, "/") {
			return "", fmt.Errorf("store URI %q: %w: a SQLite file has no host; want %sPATH or %s/PATH", uri, store.ErrInvalid, Scheme, Scheme)
		}
		path = rest
	}
	if strings.Contains(path, "?") {
		return "", fmt.Errorf("store URI %q: %w: options after ? are not known here", uri, store.ErrInvalid)
	}
	if err := checkPath(path); err != nil {
		return "", err
	}
	return path, nil
}

// checkPath refuses what SQLite would understand as something else than a file.
func checkPath(path string) error {
	switch {
	case path == "":
		return fmt.Errorf("SQLite file: %w: empty path", store.ErrInvalid)
	case strings.HasPrefix(path, ":memory:"):
		return fmt.Errorf("SQLite file %q: %w: replicas cannot share a database in memory; name a file", path, store.ErrInvalid)
	case strings.HasPrefix(path, "file:"):
		return fmt.Errorf("SQLite file %q: %w: want a plain path", path, store.ErrInvalid)
	case strings.IndexByte(path, 0) >= 0:
		return fmt.Errorf("SQLite file %q: %w: a NUL byte in the path", path, store.ErrInvalid)
	}
	return nil
}

// creating is held while this process creates a file: to close a descriptor of a file that SQLite has open would drop its locks.
var creating sync.Mutex

// prepareFile returns the absolute path and the identity of the file, which it creates, readable by its owner only, when there
// is none.
func prepareFile(path string) (string, fs.FileInfo, error) {
	if err := checkPath(path); err != nil {
		return "", nil, err
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", nil, fmt.Errorf("SQLite file %q: %w", path, err)
	}
	// One name for one file: SQLite finds the WAL beside the name it was opened by.
	if target, err := filepath.EvalSymlinks(abs); err == nil {
		abs = target
	}
	creating.Lock()
	defer creating.Unlock()
	f, err := os.OpenFile(abs, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600) //nolint:gosec // the file that the user names
	switch {
	case err == nil:
		if err := f.Close(); err != nil {
			return "", nil, fmt.Errorf("SQLite file %q: %w: create: %w", abs, store.ErrUnavailable, err)
		}
	case errors.Is(err, fs.ErrNotExist):
		return "", nil, fmt.Errorf("SQLite file %q: %w: the directory %q does not exist", abs, store.ErrInvalid, filepath.Dir(abs))
	case errors.Is(err, fs.ErrPermission):
		return "", nil, fmt.Errorf("SQLite file %q: %w: create: %w", abs, store.ErrInvalid, err)
	case !errors.Is(err, fs.ErrExist):
		return "", nil, fmt.Errorf("SQLite file %q: %w: create: %w", abs, store.ErrUnavailable, err)
	}
	info, err := os.Stat(abs)
	if err != nil {
		return "", nil, fmt.Errorf("SQLite file %q: %w: %w", abs, store.ErrUnavailable, err)
	}
	if !info.Mode().IsRegular() {
		return "", nil, fmt.Errorf("SQLite file %q: %w: not a regular file (%s)", abs, store.ErrInvalid, info.Mode().Type())
	}
	return abs, info, nil
}

// dsn names the file to the driver. SQLite may not create it: a file that vanished must not come back empty under a process that
// goes on.
func dsn(abs string) string {
	slashed := filepath.ToSlash(abs)
	if !strings.HasPrefix(slashed, "/") {
		slashed = "/" + slashed
	}
	options := url.Values{
		"mode": {"rw"},
		// Short: the loop round every statement waits, and that one knows the context.
		"_busy_timeout": {"20"},
		"_synchronous":  {"FULL"},
		"_dqs":          {"0"},
		"_error_rc":     {"1"},
	}
	return (&url.URL{Scheme: "file", Path: slashed, RawQuery: options.Encode()}).String()
}
