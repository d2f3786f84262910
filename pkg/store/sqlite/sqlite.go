// Package sqlite keeps the documents of package elect in one SQLite file, for several processes of one machine.
//
// The file is in WAL mode with synchronous=FULL: a write that was acknowledged survives a power failure. A batch is one
// transaction begun with BEGIN IMMEDIATE. Watches poll PRAGMA data_version, which costs a look into shared memory.
//
// # What it is not for
//
// SQLite's locks do not work on network file systems (NFS, SMB, many shared volumes), and WAL needs memory shared by
// all processes. Never let two machines, or two virtual machines, open one file. Nothing can detect that reliably, so
// nothing tries.
//
// A process stopped while it holds the write lock stops all writers until it goes on or dies; their calls end with
// their contexts. A file that is removed or replaced under a running process is refused from then on. Others may
// already be using another file of that name. No code of the process may open and close the file by other means.
// Closing any descriptor of it takes away SQLite's locks (a rule of POSIX).
//
// To import this package registers it for URIs that begin with sqlite: (see [store.Register]).
package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"modernc.org/sqlite"

	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/internal/engine"
	"github.com/shardctl/shardctl/pkg/store/internal/sqlstore"
)

// Options of a store; the zero value is ready to use.
type Options = sqlstore.Options

// Open opens the SQLite file at path, creates it when there is none (its directory has to exist) and sets it up, all
// within ctx. With Options.Existing nothing is made. Errors wrap [store.ErrInvalid] when it is no use to try again,
// [store.ErrSchema] when another version of the program set the file up, else [store.ErrUnavailable].
func Open(ctx context.Context, path string, o Options) (store.Store, error) {
	abs, file, err := prepareFile(path, !o.Existing)
	if err != nil {
		return nil, err
	}
	connector, err := sqlite.NewConnector(dsn(abs))
	if err != nil {
		return nil, fmt.Errorf("SQLite file %q: %w: %w", abs, store.ErrInvalid, err)
	}
	return sqlstore.Open(ctx, sql.OpenDB(connector), &dialect{path: abs, file: file}, o)
}

func init() { store.Register(Scheme, driver{}) }

// driver is what the registry knows of SQLite.
type driver struct{}

// Name implements [store.Driver].
func (driver) Name() string { return "sqlite" }

// Form implements [store.Driver].
func (driver) Form(scheme string) string { return scheme + ":PATH" }

// Parse implements [store.Driver]. There are no databases to choose from.
func (driver) Parse(c store.Config) (store.Config, error) {
	if _, err := parse(c.URI); err != "" {
		return c, &store.FieldError{Field: "uri", Text: err}
	}
	var err error
	c.Cluster, err = engine.Cluster(c.Cluster)
	return c, err
}

// Redact implements [store.Driver]: a path is no secret.
func (driver) Redact(uri string) string { return uri }

// Open implements [store.Driver].
func (driver) Open(ctx context.Context, c store.Config) (store.Store, error) {
	path, err := ParseURI(c.URI)
	if err != nil {
		return nil, err
	}
	return Open(ctx, path, Options{Cluster: c.Cluster, Existing: c.Existing, Logger: c.Logger})
}

// BlocksWriters is for [store.BlocksWriters]: the file has one lock for all writers.
func (driver) BlocksWriters(c store.Config, pid int) (bool, error) {
	path, err := ParseURI(c.URI)
	if err != nil {
		return false, err
	}
	return HoldsWriteLock(path, pid)
}

// LocalURI implements [store.LocalDriver].
func (driver) LocalURI(path string) string { return Scheme + ":" + path }

// Scheme of a store's URI: sqlite:PATH.
const Scheme = "sqlite"

// ParseURI returns the path in a URI: sqlite:NAME is relative to the working directory, sqlite:/NAME and sqlite:///NAME
// are absolute. The path is taken as it is, without escapes. Errors wrap [store.ErrInvalid].
func ParseURI(uri string) (string, error) {
	path, wrong := parse(uri)
	if wrong != "" {
		return "", fmt.Errorf("store URI %q: %w: %s", uri, store.ErrInvalid, wrong)
	}
	return path, nil
}

// parse returns the path in a URI, or what is wrong with the URI.
func parse(uri string) (path, wrong string) {
	path, ok := strings.CutPrefix(uri, Scheme+":")
	if !ok {
		return "", "does not begin with " + Scheme + ":, must be sqlite:PATH"
	}
	if rest, slashes := strings.CutPrefix(path, "//"); slashes {
		if !strings.HasPrefix(rest, "/") {
			return "", "names a host, which a SQLite file has not: must be sqlite:PATH or sqlite:///PATH"
		}
		path = rest
	}
	if strings.Contains(path, "?") {
		return "", "has options after ?, of which there are none: must be sqlite:PATH"
	}
	if path == "" || strings.HasPrefix(path, memory) {
		return "", "names no file, must be sqlite:PATH"
	}
	if wrong := checkPath(path); wrong != "" {
		return "", wrong
	}
	return path, ""
}

const memory = ":memory:"

// checkPath says what SQLite would understand as something else than a file.
func checkPath(path string) string {
	switch {
	case path == "":
		return "is an empty path"
	case strings.HasPrefix(path, memory):
		return "is a database in memory, which replicas cannot share: name a file"
	case strings.HasPrefix(path, "file:"):
		return "begins its path with file:, must be a plain path"
	case strings.IndexByte(path, 0) >= 0:
		return "has a NUL byte in its path"
	}
	return ""
}

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
