//go:build unix

package testservers

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"syscall"

	"github.com/shardctl/shardctl/internal/testprocess"
)

// KindPostgres is PostgreSQL. Everybody on this machine may connect, as the superuser shardctl for example. Its data is
// durable: fsync is on.
const KindPostgres Kind = "postgres"

// postgresUser is the superuser.
const postgresUser = "shardctl"

func init() {
	register(KindPostgres, definition{
		software: func() testprocess.Software { return &postgres{} },
		database: postgresDatabase,
	})
}

// postgresDirs are where Debian keeps what is in no one's PATH.
var postgresDirs = []string{"/usr/lib/postgresql/*/bin", ""}

// postgres is a server with one database cluster.
type postgres struct {
	initdb, server, backup, psql string

	upstream string // HOST:PORT of the primary of a standby; empty: a primary
}

func (p *postgres) Unprivileged() {}

func (p *postgres) Ports() int { return 1 }

func (p *postgres) Provide(context.Context) error {
	var errs []error
	for _, need := range []struct {
		path *string
		name string
	}{{&p.initdb, "initdb"}, {&p.server, "postgres"}, {&p.backup, "pg_basebackup"}, {&p.psql, "psql"}} {
		path, err := testprocess.ProgramIn(postgresDirs, string(KindPostgres), "postgresql", need.name)
		*need.path = path
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

func (p *postgres) Prepare(ctx context.Context, s *testprocess.Site) error {
	lines := []string{
		"listen_addresses = '" + testprocess.Loopback + "'",
		"port = " + strconv.Itoa(s.Ports[0]),
		"unix_socket_directories = ''",
		"shared_buffers = 32MB",
		"timezone = 'UTC'",
		"log_timezone = 'UTC'",
	}
	if p.upstream != "" {
		host, port, _ := strings.Cut(p.upstream, ":")
		lines = append(lines, fmt.Sprintf("primary_conninfo = 'host=%s port=%s user=%s application_name=%s'",
			host, port, postgresUser, standbyName))
	}
	if err := s.Write("postgresql.conf", lines...); err != nil {
		return err
	}
	if _, err := os.Stat(s.Path("data/PG_VERSION")); err == nil {
		return nil // made at its first start
	}
	if p.upstream != "" {
		if err := s.Run(ctx, nil, append(postgresClient(p.backup, p.upstream), "--pgdata="+s.Path("data"),
			"--wal-method=stream", "--checkpoint=fast", "--no-sync")...); err != nil {
			return err
		}
		return s.WriteFile("data/standby.signal", nil) // a promotion removes it
	}
	return s.Run(ctx, nil, p.initdb, "--pgdata="+s.Path("data"), "--username="+postgresUser, "--auth=trust",
		"--encoding=UTF8", "--locale=C", "--no-sync", "--no-instructions")
}

// Commands has a fast shutdown as the orderly end: SIGTERM would wait for clients to go.
func (p *postgres) Commands(s *testprocess.Site) []testprocess.Command {
	return []testprocess.Command{{
		Args: []string{p.server, "-D", s.Path("data"), "-c", "config_file=" + s.Path("postgresql.conf")},
		Stop: syscall.SIGINT,
	}}
}

// Ready logs in: a server that recovers still refuses that. One that asks for a password or for TLS serves clients too.
func (p *postgres) Ready(ctx context.Context, s *testprocess.Site) error {
	return postgresLogin(ctx, s.Addr(0), "postgres")
}

// postgresLogin begins a session by the protocol's version 3.0, and reads the first answer.
func postgresLogin(ctx context.Context, addr, database string) error {
	conn, err := testprocess.Dial(ctx, addr)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	fields := "user\x00" + postgresUser + "\x00database\x00" + database + "\x00\x00"
	message := binary.BigEndian.AppendUint32(nil, uint32(8+len(fields))) //nolint:gosec // some fifty bytes
	message = binary.BigEndian.AppendUint32(message, 3<<16)
	if _, err := conn.Write(append(message, fields...)); err != nil {
		return err
	}
	head := make([]byte, 5)
	if _, err := io.ReadFull(conn, head); err != nil {
		return err
	}
	if head[0] == 'R' {
		return nil
	}
	text := make([]byte, min(max(binary.BigEndian.Uint32(head[1:]), 4), 4096)-4)
	if _, err := io.ReadFull(conn, text); err != nil {
		return err
	}
	answer := strings.ReplaceAll(string(text), "\x00", " ")
	if strings.Contains(answer, " C28000 ") { // no such line in pg_hba.conf, as where TLS is asked for
		return nil
	}
	return fmt.Errorf("PostgreSQL answers %q", answer)
}

// postgresClient are the first arguments of a client's program.
func postgresClient(program, addr string) []string {
	host, port, _ := strings.Cut(addr, ":")
	return []string{program, "--host=" + host, "--port=" + port, "--username=" + postgresUser, "--no-password"}
}

func postgresDatabase(ctx context.Context, s *testprocess.Server) (string, error) {
	name := Name()
	if err := postgresExec(ctx, s, "CREATE DATABASE "+name); err != nil {
		return "", err
	}
	return postgresURI(s.Addr(), name), nil
}

func postgresURI(addr, database string) string {
	return "postgres://" + postgresUser + "@" + addr + "/" + database + "?sslmode=disable"
}

// PostgresExec runs statements on the database postgres of a server, as its superuser, each in a transaction of its
// own.
func PostgresExec(ctx context.Context, s *Server, statements ...string) error {
	return postgresExec(ctx, s.Server(), statements...)
}

// postgresExec runs statements, each in a transaction of its own.
func postgresExec(ctx context.Context, s *testprocess.Server, statements ...string) error {
	args := append(postgresClient(s.Software().(*postgres).psql, s.Addr()),
		"--dbname=postgres", "--no-psqlrc", "--quiet", "--set=ON_ERROR_STOP=1")
	for _, statement := range statements {
		args = append(args, "--command="+statement)
	}
	return s.Site().Run(ctx, nil, args...)
}
