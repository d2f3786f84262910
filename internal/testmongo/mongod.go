//go:build unix

package testmongo

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"

	"github.com/shardctl/shardctl/internal/testprocess"
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
