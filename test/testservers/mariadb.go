//go:build unix

package testservers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/shardctl/shardctl/test/testprocess"
)

// KindMariaDB is MariaDB. Its data is durable. The URI of a database is that of a user who has all rights on it and
// none else. See [MariaDBRoot].
const KindMariaDB Kind = "mariadb"

// The account with all rights, from every host.
const (
	mariadbRoot     = "admin"
	mariadbPassword = "secret-of-admin"
)

func init() {
	register(KindMariaDB, definition{
		software: func() testprocess.Software { return &mariadb{} },
		database: mariadbDatabase,
	})
}

// mariadb is a server. It takes connections by TCP alone.
type mariadb struct{ server, install, client string }

// Unprivileged implements [testprocess.Unprivileged]: the server refuses to run as root.
func (*mariadb) Unprivileged() {}

// Ports implements [testprocess.Software].
func (*mariadb) Ports() int { return 1 }

// Provide implements [testprocess.Software].
func (m *mariadb) Provide(context.Context) error {
	var errs []error
	for _, need := range []struct {
		path          *string
		debian, named string
	}{
		{&m.server, "mariadb-server", "mariadbd"},
		{&m.install, "mariadb-server", "mariadb-install-db"},
		{&m.client, "mariadb-client", "mariadb"},
	} {
		path, err := testprocess.Program(string(KindMariaDB), need.debian, need.named)
		*need.path = path
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// Prepare implements [testprocess.Software]. Writes are as durable as the stores want them.
func (m *mariadb) Prepare(ctx context.Context, s *testprocess.Site) error {
	err := s.Write("my.cnf",
		"[mariadbd]",
		"datadir="+s.Path("data"),
		"tmpdir="+s.Dir,
		"socket=s", // in datadir: the path of a socket has at most 107 bytes, and tests' directories are long
		"pid-file="+s.Path("server.pid"),
		"bind-address="+testprocess.Loopback,
		"port="+strconv.Itoa(s.Ports[0]),
		"skip-name-resolve",
		"character-set-server=utf8mb4",
		"innodb_buffer_pool_size=32M",
		"innodb_log_file_size=16M",
		"performance_schema=OFF",
		"innodb_flush_log_at_trx_commit=1",
		"sync_binlog=1",
		"init-file="+s.Path("init.sql"),
	)
	if err != nil {
		return err
	}
	account := fmt.Sprintf("GRANT ALL PRIVILEGES ON *.* TO '%s'@'%%' IDENTIFIED BY '%s' WITH GRANT OPTION;\n",
		mariadbRoot, mariadbPassword)
	if err := s.WriteFile("init.sql", []byte(account)); err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(s.Path("data"), "mysql")); err == nil {
		return nil
	}
	return s.Run(ctx, nil, m.install, "--no-defaults", "--datadir="+s.Path("data"), "--skip-test-db",
		"--auth-root-authentication-method=normal", "--skip-log-bin")
}

// Commands implements [testprocess.Software].
func (m *mariadb) Commands(s *testprocess.Site) []testprocess.Command {
	return []testprocess.Command{{Args: []string{m.server, "--defaults-file=" + s.Path("my.cnf")}}}
}

// Ready implements [testprocess.Software]. The server greets with a packet: three bytes of length, a number, and the
// version of its protocol. A refusal is the byte 0xff in its place.
func (m *mariadb) Ready(ctx context.Context, s *testprocess.Site) error {
	greeting := make([]byte, 5)
	if err := testprocess.Ask(ctx, s.Addr(0), nil, greeting); err != nil {
		return err
	}
	if greeting[4] != 10 {
		return fmt.Errorf("not MariaDB, or it refuses: %q", greeting)
	}
	return nil
}

// MariaDBRoot is the URI of a database for the account with all rights.
func MariaDBRoot(s *Server, database string) string {
	return "mysql://" + mariadbRoot + ":" + mariadbPassword + "@" + s.Addr + "/" + database
}

// MariaDBExec runs statements as the account with all rights.
func MariaDBExec(ctx context.Context, s *testprocess.Server, statements string) error {
	host, port, _ := strings.Cut(s.Addr(), ":")
	return s.Site().Run(ctx, []string{"MYSQL_PWD=" + mariadbPassword}, s.Software().(*mariadb).client, "--no-defaults",
		"--protocol=tcp", "--host="+host, "--port="+port, "--user="+mariadbRoot, "--execute="+statements)
}

// mariadbDatabase makes a database and a user of its name, who has the rights that docs/stores/mysql.md lists.
func mariadbDatabase(ctx context.Context, s *testprocess.Server) (string, error) {
	name := strings.ToLower(Name())
	err := MariaDBExec(ctx, s, fmt.Sprintf("CREATE DATABASE %[1]s; CREATE USER %[1]s@'%%' IDENTIFIED BY 'secret'; "+
		"GRANT CREATE, INDEX, SELECT, INSERT, UPDATE, DELETE ON %[1]s.* TO %[1]s@'%%'", name))
	return "mysql://" + name + ":secret@" + s.Addr() + "/" + name, err
}
