//go:build unix

package testservers

import (
	"context"
	"strconv"
	"strings"
	"testing"

	"github.com/shardctl/shardctl/internal/testprocess"
)

// kindPgBouncer is for errors: PgBouncer is no store.
const kindPgBouncer = "pgbouncer"

// StartPgBouncer starts a pooler in transaction mode in front of the PostgreSQL at addr that ends with the test.
// Databases have the same names:
//
//	uri := strings.ReplaceAll(server.Database(), server.Addr, pooler.Addr)
func StartPgBouncer(tb testing.TB, addr string, config ...string) *Server {
	tb.Helper()
	return use(tb, testprocess.Fresh(tb, family, kindPgBouncer,
		func(ctx context.Context, dir string) (*testprocess.Server, error) {
			return family.Open(ctx, kindPgBouncer, &pgbouncer{target: addr}, dir, testprocess.Options{Config: config})
		}))
}

// pgbouncer is a pooler of connections.
type pgbouncer struct{ program, target string }

func (p *pgbouncer) Unprivileged() {}

func (p *pgbouncer) Ports() int { return 1 }

func (p *pgbouncer) Provide(context.Context) (err error) {
	p.program, err = testprocess.Program(kindPgBouncer, "pgbouncer", "pgbouncer")
	return err
}

func (p *pgbouncer) Prepare(_ context.Context, s *testprocess.Site) error {
	if err := s.WriteFile("users.txt", []byte(`"`+postgresUser+`" ""`+"\n")); err != nil {
		return err
	}
	host, port, _ := strings.Cut(p.target, ":")
	return s.Write("pgbouncer.ini",
		"[databases]",
		"* = host="+host+" port="+port,
		"[pgbouncer]",
		"listen_addr = "+testprocess.Loopback,
		"listen_port = "+strconv.Itoa(s.Ports[0]),
		"unix_socket_dir =",
		"auth_type = trust",
		"auth_file = "+s.Path("users.txt"),
		"pool_mode = transaction",
		"ignore_startup_parameters = extra_float_digits",
	)
}

func (p *pgbouncer) Commands(s *testprocess.Site) []testprocess.Command {
	return []testprocess.Command{{Args: []string{p.program, s.Path("pgbouncer.ini")}}}
}

// Ready logs in to the pooler and the server behind it.
func (p *pgbouncer) Ready(ctx context.Context, s *testprocess.Site) error {
	return postgresLogin(ctx, s.Addr(0), "postgres")
}
