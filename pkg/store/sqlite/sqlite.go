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
// their contexts. No code of the process may open and close the file by other means. Closing any descriptor of it takes
// away SQLite's locks (a rule of POSIX).
//
// # What a database is
//
// It is three files while it is open: the file, its log (-wal) and the memory that all processes share (-shm). The
// latter two belong to the path, so a file must have one path. One with several names (hard links), or that is mounted
// by itself into several containers, is refused: mount the directory. A process whose files are removed or replaced
// refuses all calls from then on, and as long as it has them open no other process opens the file by another log. The
// latter two are known on Linux only.
//
// To import this package registers it for URIs that begin with sqlite: (see [driver.Register]).
package sqlite

import (
	"cmp"
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
	"time"

	"modernc.org/sqlite"

	"github.com/shardctl/shardctl/internal/clock"
	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/internal/dbstore"
	"github.com/shardctl/shardctl/pkg/store/internal/sqlstore"
)

// Options of a store; the zero value is ready to use.
type Options = sqlstore.Options

// Open opens the SQLite file at path, creates it when there is none (its directory has to exist) and sets it up, all
// within ctx. With Options.Existing nothing is made. Errors wrap [driver.ErrInvalid] when it is no use to try again,
// [driver.ErrSchema] when another version of the program set the file up, else [driver.ErrUnavailable].
func Open(ctx context.Context, path string, o Options) (driver.Store, error) {
	abs, err := prepareFile(path, !o.Existing)
	if err == nil {
		err = checkNames(abs)
	}
	if err == nil {
		err = awaitOneLog(ctx, abs)
	}
	if err != nil {
		return nil, fmt.Errorf("SQLite file %q: %w", cmp.Or(abs, path), err)
	}
	connector, err := sqlite.NewConnector(dsn(abs))
	if err != nil {
		return nil, fmt.Errorf("SQLite file %q: %w: %w", abs, driver.ErrInvalid, err)
	}
	return sqlstore.Open(ctx, sql.OpenDB(connector), &dialect{path: abs}, o)
}

func init() { driver.Register(Scheme, registered{}) }

// driver is what the registry knows of SQLite.
type registered struct{}

// Name implements [driver.Driver].
func (registered) Name() string { return "sqlite" }

// Form implements [driver.Driver].
func (registered) Form(scheme string) string { return scheme + ":PATH" }

// Parse implements [driver.Driver]. There are no databases to choose from.
func (registered) Parse(c driver.Config) (driver.Config, error) {
	if _, err := parse(c.URI); err != "" {
		return c, &driver.FieldError{Field: "uri", Text: err}
	}
	var err error
	c.Cluster, err = dbstore.Cluster(c.Cluster)
	return c, err
}

// Redact implements [driver.Driver]: a path is no secret.
func (registered) Redact(uri string) string { return uri }

// Open implements [driver.Driver].
func (registered) Open(ctx context.Context, c driver.Config) (driver.Store, error) {
	path, err := ParseURI(c.URI)
	if err != nil {
		return nil, err
	}
	return Open(ctx, path, Options{Cluster: c.Cluster, Existing: c.Existing, Logger: c.Logger})
}

// BlocksWriters is for [driver.BlocksWriters]: the file has one lock for all writers.
func (registered) BlocksWriters(c driver.Config, pid int) (bool, error) {
	path, err := ParseURI(c.URI)
	if err != nil {
		return false, err
	}
	return HoldsWriteLock(path, pid)
}

// LocalURI implements [driver.LocalDriver].
func (registered) LocalURI(path string) string { return Scheme + ":" + path }

// Scheme of a store's URI: sqlite:PATH.
const Scheme = "sqlite"

// ParseURI returns the path in a URI: sqlite:NAME is relative to the working directory, sqlite:/NAME and sqlite:///NAME
// are absolute. The path is taken as it is, without escapes. Errors wrap [driver.ErrInvalid].
func ParseURI(uri string) (string, error) {
	path, wrong := parse(uri)
	if wrong != "" {
		return "", fmt.Errorf("store URI %q: %w: %s", uri, driver.ErrInvalid, wrong)
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

// prepareFile returns the absolute path of the file. When there is none it creates it, readable by its owner only, if it
// may.
func prepareFile(path string, create bool) (string, error) {
	if wrong := checkPath(path); wrong != "" {
		return "", fmt.Errorf("%w: it %s", driver.ErrInvalid, wrong)
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	// One name for one file: SQLite finds the WAL next to the name it was opened by.
	if target, err := filepath.EvalSymlinks(abs); err == nil {
		abs = target
	}
	if create {
		if err := createFile(abs); err != nil {
			return abs, err
		}
	}
	info, err := os.Stat(abs)
	switch {
	case !create && errors.Is(err, fs.ErrNotExist):
		return abs, fmt.Errorf("%w: no replica has made this store yet: %w", driver.ErrInvalid, err)
	case err != nil:
		return abs, fmt.Errorf("%w: %w", driver.ErrUnavailable, err)
	case !info.Mode().IsRegular():
		return abs, fmt.Errorf("%w: not a regular file (%s)", driver.ErrInvalid, info.Mode().Type())
	}
	return abs, nil
}

// createFile makes an empty file, unless there is one.
func createFile(abs string) error {
	creating.Lock()
	defer creating.Unlock()
	f, err := os.OpenFile(abs, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600) //nolint:gosec // the file that the user names
	switch {
	case err == nil:
		if err := f.Close(); err != nil {
			return fmt.Errorf("%w: create: %w", driver.ErrUnavailable, err)
		}
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%w: the directory %q does not exist", driver.ErrInvalid, filepath.Dir(abs))
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%w: create: %w", driver.ErrInvalid, err)
	case !errors.Is(err, fs.ErrExist):
		return fmt.Errorf("%w: create: %w", driver.ErrUnavailable, err)
	}
	return nil
}

// How long a file may be open without its log being so: in between a process opens it.
const (
	openingLog = 2 * time.Second
	openingTry = 5 * time.Millisecond
)

// awaitOneLog refuses a file that somebody uses with another log than the one at this path, as where that was removed:
// neither would see what the other writes. The files are not opened by it.
func awaitOneLog(ctx context.Context, abs string) error {
	for end := time.Now().Add(openingLog); ; {
		by, err := usesAnotherLog(abs)
		if err != nil {
			return fmt.Errorf("%w: %w", driver.ErrUnavailable, err)
		}
		if by == 0 {
			return nil
		}
		if time.Now().After(end) || clock.Sleep(ctx, openingTry) != nil {
			return fmt.Errorf("%w: process %d uses it with another log than %s: end all processes that use it first",
				driver.ErrUnavailable, by, filepath.Base(abs)+"-wal")
		}
	}
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
