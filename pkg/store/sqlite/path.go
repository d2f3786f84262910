package sqlite

import (
	"fmt"
	"strings"

	"github.com/shardctl/shardctl/pkg/store"
)

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
