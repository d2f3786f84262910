package mysql_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/storetest"
	"github.com/shardctl/shardctl/test/testprocess"
	"github.com/shardctl/shardctl/test/testservers"
)

// refused wants an error of a store that cannot be opened. See [storetest.WantError].
func refused(t *testing.T, uri string, kind error, says ...string) {
	t.Helper()
	storetest.WantRefused(t, driver.Config{URI: uri}, kind, says...)
}

func TestBadInput(t *testing.T) {
	server := testservers.Shared(t, testservers.KindMariaDB)
	uri := server.Database()
	name := databaseOf(uri)
	refused(t, strings.Replace(uri, ":secret@", ":secret2@", 1), driver.ErrInvalid, "check user and password")
	refused(t, strings.Replace(uri, name+":", "nobody:", 1), driver.ErrInvalid, "check user and password")
	refused(t, testservers.MariaDBRoot(server, "missing"), driver.ErrInvalid, "create the database", "missing")
	storetest.WantRefused(t, driver.Config{URI: uri, Existing: true}, driver.ErrInvalid, "no replica has set up this cluster")
	storetest.WantRefused(t, driver.Config{URI: uri, Cluster: "a b"}, driver.ErrInvalid, "cluster")
	refused(t, uri+"?tls=true", driver.ErrInvalid, "TLS")
	refused(t, "mysql://u:secret@127.0.0.1:1/x", driver.ErrUnavailable, "refused")

	exec(t, server, fmt.Sprintf("CREATE USER other_%[1]s@'%%' IDENTIFIED VIA unix_socket", name))
	refused(t, strings.Replace(uri, name+":", "other_"+name+":", 1), driver.ErrInvalid, "identify the user by a password")
	exec(t, server, fmt.Sprintf("REVOKE CREATE ON %[1]s.* FROM %[1]s@'%%'", name))
	refused(t, uri, driver.ErrInvalid, "grant the user the rights", "docs/stores/mysql.md")
}

// Who only reads needs the right to read alone.
func TestLeastGrants(t *testing.T) {
	server := testservers.Shared(t, testservers.KindMariaDB)
	uri := server.Database()
	s := storetest.Open(t, driver.Config{URI: uri})
	if got := store.Problems(s); len(got) > 0 {
		t.Errorf("problems: %+v", got)
	}
	name := databaseOf(uri)
	storetest.Rights{
		Writer: driver.Config{URI: uri}, Reader: driver.Config{URI: uri}, Denied: []string{"grant the user the rights"},
		Grant: func() {
			exec(t, server, fmt.Sprintf("REVOKE CREATE, INDEX, INSERT, UPDATE, DELETE ON %[1]s.* FROM %[1]s@'%%'", name))
		},
	}.Run(t)
	wantProblem(t, testservers.MariaDBRoot(server, name), "StorePrivileged")
}

func wantProblem(t *testing.T, uri, reason string) {
	t.Helper()
	s := storetest.Open(t, driver.Config{URI: uri})
	for _, p := range store.Problems(s) {
		if p.Reason == reason {
			return
		}
	}
	t.Errorf("problems: %+v; want %s", store.Problems(s), reason)
}

// A server that is not durable, or of a wrong format, says so.
func TestSettings(t *testing.T) {
	server := testservers.Start(t, testservers.KindMariaDB, "log-bin=binlog", "server-id=1")
	uri := server.Database()
	s := storetest.Open(t, driver.Config{URI: uri})
	if got := store.Problems(s); len(got) > 0 {
		t.Errorf("problems: %+v", got)
	}
	found, err := store.Inspect(t.Context(), s)
	if err != nil || !strings.HasPrefix(found.Server, "MariaDB 1") || len(found.Settings) < 4 {
		t.Errorf("got %+v, %v", found, err)
	}
	exec(t, server, "SET GLOBAL sync_binlog = 0; SET GLOBAL innodb_flush_log_at_trx_commit = 2")
	found, err = store.Inspect(t.Context(), s)
	var failing []string
	for _, setting := range found.Settings {
		if !setting.Holds {
			failing = append(failing, setting.Name)
		}
	}
	if got := strings.Join(failing, " "); err != nil || got != "innodb_flush_log_at_trx_commit sync_binlog" {
		t.Errorf("what does not hold: %s, %v", got, err)
	}
	wantProblem(t, uri, "StoreNotDurable")
	exec(t, server, "SET GLOBAL binlog_format = 'STATEMENT'")
	refused(t, uri, driver.ErrInvalid, "binlog_format")
}

// TLS with the server's authority works, also with a client's certificate, and fails with another authority.
func TestTLS(t *testing.T) {
	cert, key := testprocess.Certificate(t, "server")
	client, clientKey := testprocess.Certificate(t, "client")
	dir := t.TempDir()
	if err := os.Chmod(filepath.Dir(dir), 0o755); err != nil { // the server's user passes through
		t.Fatal(err)
	}
	server := testservers.Start(t, testservers.KindMariaDB,
		"ssl-cert="+readable(t, dir, "cert.pem", cert), "ssl-key="+readable(t, dir, "key.pem", key),
		"ssl-ca="+readable(t, dir, "client.pem", client))
	uri := server.Database()
	storetest.Open(t, driver.Config{URI: uri + "?tlsCAFile=" + cert})
	refused(t, uri+"?tls=true", driver.ErrInvalid, "tlsCAFile")
	exec(t, server, fmt.Sprintf("ALTER USER %s@'%%' REQUIRE X509", databaseOf(uri)))
	storetest.TLS{
		URI:       func(f storetest.Files) string { return uri + f.Params() },
		Right:     storetest.Files{Authority: cert, Cert: client, Key: clientKey},
		Stranger:  storetest.Files{Authority: client, Cert: cert, Key: key},
		Untrusted: "tlsCAFile",
		Without:   storetest.Refusal{Kind: driver.ErrInvalid, Says: "check user and password"},
		Strange:   storetest.Refusal{}, // the driver hides whether there was an alert
	}.Run(t)
}

// readable is a copy of a file that the server's user may read.
func readable(t *testing.T, dir, name, path string) string {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	to := dir + "/" + name
	if err := os.WriteFile(to, content, 0o644); err != nil {
		t.Fatal(err)
	}
	return to
}
