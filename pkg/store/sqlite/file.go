package sqlite

import (
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/shardctl/shardctl/pkg/store"
)

// creating is held while this process creates a file: to close a descriptor of a file that SQLite has open would drop
// its locks.
var creating sync.Mutex

// prepareFile returns the absolute path and the identity of the file. When there is none it creates it, readable by its
// owner only, if it may.
func prepareFile(path string, create bool) (string, fs.FileInfo, error) {
	if wrong := checkPath(path); wrong != "" {
		return "", nil, fmt.Errorf("SQLite file %q: %w: it %s", path, store.ErrInvalid, wrong)
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", nil, fmt.Errorf("SQLite file %q: %w", path, err)
	}
	// One name for one file: SQLite finds the WAL next to the name it was opened by.
	if target, err := filepath.EvalSymlinks(abs); err == nil {
		abs = target
	}
	if create {
		if err := createFile(abs); err != nil {
			return "", nil, err
		}
	}
	info, err := os.Stat(abs)
	if !create && errors.Is(err, fs.ErrNotExist) {
		return "", nil, fmt.Errorf(
			"SQLite file %q: %w: no replica has made this store yet: %w", abs, store.ErrInvalid, err,
		)
	}
	if err != nil {
		return "", nil, fmt.Errorf("SQLite file %q: %w: %w", abs, store.ErrUnavailable, err)
	}
	if !info.Mode().IsRegular() {
		return "", nil, fmt.Errorf(
			"SQLite file %q: %w: not a regular file (%s)", abs, store.ErrInvalid, info.Mode().Type(),
		)
	}
	return abs, info, nil
}

// createFile makes an empty file, unless there is one.
func createFile(abs string) error {
	creating.Lock()
	defer creating.Unlock()
	f, err := os.OpenFile(abs, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600) //nolint:gosec // the file that the user names
	switch {
	case err == nil:
		if err := f.Close(); err != nil {
			return fmt.Errorf("SQLite file %q: %w: create: %w", abs, store.ErrUnavailable, err)
		}
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf(
			"SQLite file %q: %w: the directory %q does not exist", abs, store.ErrInvalid, filepath.Dir(abs),
		)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("SQLite file %q: %w: create: %w", abs, store.ErrInvalid, err)
	case !errors.Is(err, fs.ErrExist):
		return fmt.Errorf("SQLite file %q: %w: create: %w", abs, store.ErrUnavailable, err)
	}
	return nil
}

// dsn names the file to the driver. SQLite may not create it: a file that vanished must not come back empty under a
// process that goes on.
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
