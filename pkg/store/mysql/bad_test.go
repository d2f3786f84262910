package mysql_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/mysql"
	"github.com/shardctl/shardctl/test/testprocess"
	"github.com/shardctl/shardctl/test/testservers"
)

// wantRefused opens a store that cannot be opened, and wants one line that says what to do and no password.
func wantRefused(t *testing.T, uri string, o mysql.Options, is error, wants ...string) {
	t.Helper()
	s, err := mysql.Open(t.Context(), uri, o)
	if err == nil {
		_ = s.Close(t.Context())
		t.Errorf("%v: it opened", wants)
		return
	}
	for _, want := range wants {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	if !errors.Is(err, is) || strings.Contains(err.Error(), "\n") || strings.Contains(err.Error(), "secret") {
		t.Errorf("got %v, want one line that is %v, and no password", err, is)
	}
}

func TestBadInput(t *testing.T) {
	server := testservers.Shared(t, testservers.KindMariaDB)
	uri := server.Database()
	name := databaseOf(uri)
	wantRefused(t, strings.Replace(uri, ":secret@", ":secret2@", 1), mysql.Options{}, store.ErrInvalid,
		"check user and password")
	wantRefused(t, strings.Replace(uri, name+":", "nobody:", 1), mysql.Options{}, store.ErrInvalid,
		"check user and password")
	wantRefused(t, testservers.MariaDBRoot(server, "missing"), mysql.Options{}, store.ErrInvalid,
		"create the database", "missing")
	wantRefused(t, uri, mysql.Options{Existing: true}, store.ErrInvalid, "no replica has set up this cluster")
	wantRefused(t, uri, mysql.Options{Cluster: "a b"}, store.ErrInvalid, "cluster")
	wantRefused(t, uri+"?tls=true", mysql.Options{}, store.ErrInvalid, "TLS")
	wantRefused(t, "mysql://u:secret@127.0.0.1:1/x", mysql.Options{}, store.ErrUnavailable, "refused")

	exec(t, server, fmt.Sprintf("CREATE USER other_%[1]s@'%%' IDENTIFIED VIA unix_socket", name))
	wantRefused(t, strings.Replace(uri, name+":", "other_"+name+":", 1), mysql.Options{}, store.ErrInvalid,
		"identify the user by a password")
	exec(t, server, fmt.Sprintf("REVOKE CREATE ON %[1]s.* FROM %[1]s@'%%'", name))
	wantRefused(t, uri, mysql.Options{}, store.ErrInvalid, "grant the user the rights", "docs/stores/mysql.md")
}

// Who only reads needs the right to read alone.
func TestLeastGrants(t *testing.T) {
	server := testservers.Shared(t, testservers.KindMariaDB)
	uri := server.Database()
	s := open(t, uri, mysql.Options{})
	if out := one(t, t.Context(), s, put("g/a", 0, 1)); out.Status != store.Applied {
		t.Fatalf("got %+v", out)
	}
	if got := store.Problems(s); len(got) > 0 {
		t.Errorf("problems: %+v", got)
	}
	name := databaseOf(uri)
	exec(t, server, fmt.Sprintf("REVOKE CREATE, INDEX, INSERT, UPDATE, DELETE ON %[1]s.* FROM %[1]s@'%%'", name))
	reader := open(t, uri, mysql.Options{Existing: true})
	if res, err := reader.Read(t.Context(), store.KindLock, "g/a"); err != nil || len(res.Docs) != 1 {
		t.Errorf("read: %+v, %v", res, err)
	}
	if out := one(t, t.Context(), reader, put("g/b", 0, 2)); out.Status != store.Unknown ||
		!strings.Contains(out.Err.Error(), "grant the user the rights") {
		t.Errorf("write: %+v", out)
	}
	wantProblem(t, testservers.MariaDBRoot(server, name), "StorePrivileged")
}

func wantProblem(t *testing.T, uri, reason string) {
	t.Helper()
	s := open(t, uri, mysql.Options{})
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
	s := open(t, uri, mysql.Options{})
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
	wantRefused(t, uri, mysql.Options{}, store.ErrInvalid, "binlog_format")
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
	name := databaseOf(uri)
	open(t, uri+"?tlsCAFile="+cert, mysql.Options{})
	wantRefused(t, uri+"?tls=true", mysql.Options{}, store.ErrInvalid, "tlsCAFile")
	wantRefused(t, uri+"?tlsCAFile="+client, mysql.Options{}, store.ErrInvalid, "tlsCAFile")
	wantRefused(t, uri+"?tlsCAFile="+dir+"/missing", mysql.Options{}, store.ErrInvalid, "tlsCAFile", "missing")
	exec(t, server, fmt.Sprintf("ALTER USER %s@'%%' REQUIRE X509", name))
	wantRefused(t, uri+"?tlsCAFile="+cert, mysql.Options{}, store.ErrInvalid, "check user and password")
	s := open(t, uri+"?tlsCAFile="+cert+"&tlsCertFile="+client+"&tlsKeyFile="+clientKey, mysql.Options{})
	if out := one(t, t.Context(), s, put("g/a", 0, 1)); out.Status != store.Applied {
		t.Errorf("got %+v", out)
	}
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
