//go:build unix

package testservers

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/shardctl/shardctl/test/testprocess"
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
		"dynamic_shared_memory_type = mmap", // files in data: of a server that was killed, others stay for good
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

// Clean removes the segment of shared memory that keeps two servers off one directory. The kernel has 4,096 for all.
// https://www.postgresql.org/docs/current/kernel-resources.html
func (p *postgres) Clean(s *testprocess.Site) {
	pidFile, err := os.ReadFile(s.Path("data/postmaster.pid"))
	if err != nil {
		return // it ended in an orderly way
	}
	lines := strings.Split(string(pidFile), "\n")
	if len(lines) <= postgresSegment {
		return // it had not come so far
	}
	if fields := strings.Fields(lines[postgresSegment]); len(fields) == 2 {
		if id, err := strconv.Atoi(fields[1]); err == nil {
			_, _ = unix.SysvShmCtl(id, unix.IPC_RMID, nil) // one that is not there is as good
		}
	}
}

// postgresSegment is the line of postmaster.pid with the key and the ID of that segment, the first being 0.
const postgresSegment = 6

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
	message := binary.BigEndian.AppendUint32(nil, uint32(8+len(fields)))
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

// standbyName is what a standby calls itself at its primary.
const standbyName = "standby"

// promoteSeconds bounds a promotion.
const promoteSeconds = "60"

// PostgresPair is a primary and its synchronous standby. The primary confirms no write that the standby has not written
// to disk. It waits for the standby for as long as that takes.
type PostgresPair struct {
	Primary, Standby *Server
	tb               testing.TB
}

// StartPostgresPair starts a pair that ends with the test. Config lines are for both.
func StartPostgresPair(tb testing.TB, config ...string) *PostgresPair {
	tb.Helper()
	pair := testprocess.Fresh(tb, family, string(KindPostgres),
		func(ctx context.Context, dir string) (*servers, error) {
			return openPostgresPair(ctx, dir, config)
		})
	return &PostgresPair{Primary: use(tb, pair.all[0]), Standby: use(tb, pair.all[1]), tb: tb}
}

func openPostgresPair(ctx context.Context, dir string, config []string) (*servers, error) {
	pair := &servers{}
	options := testprocess.Options{Config: config}
	primary, err := pair.add(testprocess.Open(ctx, string(KindPostgres), &postgres{}, filepath.Join(dir, "primary"),
		options))
	if err != nil {
		return nil, err
	}
	_, err = pair.add(testprocess.Open(ctx, string(KindPostgres), &postgres{upstream: primary.Addr()},
		filepath.Join(dir, "standby"), options))
	if err != nil {
		return nil, err
	}
	err = postgresExec(ctx, primary, "ALTER SYSTEM SET synchronous_standby_names = '"+standbyName+"'",
		"SELECT pg_reload_conf()")
	if err == nil {
		err = waitSynchronous(ctx, primary)
	}
	if err != nil {
		pair.Close()
		return nil, err
	}
	return pair, nil
}

// waitSynchronous waits until a write on the primary waits for the standby.
func waitSynchronous(ctx context.Context, primary *testprocess.Server) error {
	const wait = `DO $$ BEGIN FOR i IN 1..2000 LOOP
		IF EXISTS (SELECT FROM pg_stat_replication WHERE sync_state = 'sync') THEN RETURN; END IF;
		PERFORM pg_sleep(0.01);
		PERFORM pg_stat_clear_snapshot();
	END LOOP; RAISE 'the standby is not synchronous'; END $$`
	return postgresExec(ctx, primary, wait)
}

// Promote makes the standby a primary of its own, and returns once it takes writes. The old primary is to be killed
// before, or it would take writes too, though confirm none.
func (p *PostgresPair) Promote() {
	p.tb.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(p.tb.Context()), 2*time.Minute)
	defer cancel()
	err := postgresExec(ctx, p.Standby.Server(),
		"DO $$ BEGIN IF NOT pg_promote(true, "+promoteSeconds+") THEN RAISE 'not promoted'; END IF; END $$")
	if err != nil {
		p.tb.Fatal(err)
	}
}

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
			return testprocess.Open(ctx, kindPgBouncer, &pgbouncer{target: addr}, dir, testprocess.Options{Config: config})
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
