package postgres_test

import (
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/postgres"
	"github.com/shardctl/shardctl/pkg/store/storetest"
	"github.com/shardctl/shardctl/test/testprocess"
	"github.com/shardctl/shardctl/test/testservers"
)

// with changes a URI.
func with(t *testing.T, uri string, change func(*url.URL)) string {
	t.Helper()
	u, err := url.Parse(uri)
	if err != nil {
		t.Fatal(err)
	}
	change(u)
	return u.String()
}

// What is wrong with a set-up is one line that says what to do.
func TestOpenRefuses(t *testing.T) {
	server := testservers.Start(t, testservers.KindPostgres, "password_encryption = 'scram-sha-256'")
	uri := server.Database()
	if err := postgres.Exec(t.Context(), uri,
		`CREATE ROLE named LOGIN PASSWORD 's3cret'`, `CREATE ROLE poor LOGIN`,
		`CREATE ROLE few LOGIN CONNECTION LIMIT 0`, `REVOKE CREATE ON SCHEMA public FROM PUBLIC`,
		`CREATE SCHEMA old`, `CREATE FUNCTION old.current_setting(text) RETURNS text LANGUAGE sql AS `+
			`$$ SELECT CASE $1 WHEN 'server_version_num' THEN '110022' ELSE pg_catalog.current_setting($1) END $$`,
	); err != nil {
		t.Fatal(err)
	}
	if err := server.Server().Site().WriteFile("data/pg_hba.conf", []byte(
		"host all named 127.0.0.1/32 scram-sha-256\n"+everybody("host")+"trust\n")); err != nil {
		t.Fatal(err)
	}
	if err := postgres.Exec(t.Context(), uri, `SELECT pg_reload_conf()`); err != nil {
		t.Fatal(err)
	}
	as := func(user *url.Userinfo) string { return with(t, uri, func(u *url.URL) { u.User = user }) }
	for name, tt := range map[string]struct {
		uri  string
		kind error
		says []string
	}{
		"wrong password": {
			as(url.UserPassword("named", "s3cret-and-wrong")), driver.ErrInvalid,
			[]string{server.Addr, "password authentication failed", "check the user, the password"},
		},
		"no such user": {as(url.User("nobody")), driver.ErrInvalid, []string{`role "nobody" does not exist`}},
		"no such database": {
			with(t, uri, func(u *url.URL) { u.Path = "/missing" }), driver.ErrInvalid,
			[]string{`database "missing" does not exist`, "create the database"},
		},
		"no right to create tables": {
			as(url.User("poor")), driver.ErrInvalid, []string{"docs/stores/postgresql.md"},
		},
		"a server that says it is too old": {
			with(t, uri, func(u *url.URL) { u.RawQuery += "&search_path=old,pg_catalog" }), driver.ErrInvalid,
			[]string{"PostgreSQL 11, want 12 or newer: upgrade it"},
		},
		"no connection left": {
			as(url.User("few")), driver.ErrUnavailable, []string{"too many connections", "raise max_connections"},
		},
		"no TLS there": {
			with(t, uri, func(u *url.URL) { u.RawQuery = "sslmode=require" }), driver.ErrUnavailable,
			[]string{"server refused TLS connection"},
		},
		"no server": {"postgres://127.0.0.1:1/x?sslmode=disable", driver.ErrUnavailable, []string{"127.0.0.1:1"}},
	} {
		t.Run(name, func(t *testing.T) {
			storetest.WantRefused(t, driver.Config{URI: tt.uri}, tt.kind, tt.says...)
		})
	}
}

// everybody begins a line of pg_hba.conf that is for every database and every user.
func everybody(kind string) string {
	return strings.Join([]string{kind, "all", "all", "127.0.0.1/32", ""}, " ")
}

// A standby, and a primary that takes no writes for now, are unavailable: another may take over.
func TestReadOnly(t *testing.T) {
	pair := testservers.StartPostgresPair(t)
	uri := pair.Primary.Database()
	standby := strings.ReplaceAll(uri, pair.Primary.Addr, pair.Standby.Addr)
	_, err := postgres.Open(t.Context(), postgres.Options{URI: standby, Database: "postgres"})
	storetest.WantError(t, err, driver.ErrUnavailable, "read-only", "name the primary")

	s := openBrief(t, uri)
	calls.Until(t, s, increment("g"))
	if err := postgres.Exec(t.Context(), uri,
		`ALTER SYSTEM SET default_transaction_read_only = on`, `SELECT pg_reload_conf()`,
	); err != nil {
		t.Fatal(err)
	}
	for range 100 {
		if calls.One(t, s, increment("g")).Status == driver.Unknown {
			break
		}
	}
	out := calls.One(t, s, increment("g"))
	if out.Status != driver.Unknown {
		t.Fatalf("of a server that is read-only: %+v", out)
	}
	storetest.WantError(t, out.Err, driver.ErrUnavailable, "read-only")
	if err := postgres.Exec(t.Context(), uri,
		`SET default_transaction_read_only = off`, `ALTER SYSTEM RESET default_transaction_read_only`,
		`SELECT pg_reload_conf()`,
	); err != nil {
		t.Fatal(err)
	}
	calls.Until(t, s, increment("g"))
}

// With TLS the server is verified by its authority, and verifies the client by its certificate.
func TestTLS(t *testing.T) {
	server := testservers.Start(t, testservers.KindPostgres)
	uri := server.Database()
	cert, key := testprocess.Certificate(t, "127.0.0.1")
	otherCert, otherKey := testprocess.Certificate(t, "127.0.0.1")
	secure(t, server, uri, cert, key)
	storetest.TLS{
		URI: func(f storetest.Files) string {
			params := url.Values{"sslmode": {"verify-full"}, "sslrootcert": {f.Authority}}
			if f.Cert != "" {
				params.Set("sslcert", f.Cert)
				params.Set("sslkey", f.Key)
			}
			return with(t, uri, func(u *url.URL) { u.RawQuery = params.Encode() })
		},
		Right:     storetest.Files{Authority: cert, Cert: cert, Key: key},
		Stranger:  storetest.Files{Authority: otherCert, Cert: otherCert, Key: otherKey},
		Untrusted: "sslrootcert",
		Without: storetest.Refusal{
			Kind: driver.ErrInvalid, Says: "connection requires a valid client certificate",
		},
		Strange: storetest.Refusal{Kind: driver.ErrInvalid, Says: "a certificate that the server takes in sslcert"},
	}.Run(t)
	plain := with(t, uri, func(u *url.URL) { u.RawQuery = "sslmode=disable" })
	storetest.WantRefused(t, driver.Config{URI: plain}, driver.ErrInvalid, "pg_hba.conf")
}

// secure has a server take nothing but TLS with a client's certificate.
func secure(t *testing.T, server *testservers.Server, uri, cert, key string) {
	t.Helper()
	site := server.Server().Site()
	for name, content := range map[string][]byte{
		"data/server.crt": readFile(t, cert), "data/server.key": readFile(t, key), "data/root.crt": readFile(t, cert),
		"data/pg_hba.conf": []byte(everybody("hostssl") + "trust clientcert=verify-ca\n"),
	} {
		if err := site.WriteFile(name, content); err != nil {
			t.Fatal(err)
		}
	}
	if err := postgres.Exec(t.Context(), uri,
		`ALTER SYSTEM SET ssl_cert_file = 'server.crt'`, `ALTER SYSTEM SET ssl_key_file = 'server.key'`,
		`ALTER SYSTEM SET ssl_ca_file = 'root.crt'`, `ALTER SYSTEM SET ssl = on`,
	); err != nil {
		t.Fatal(err)
	}
	server.Stop()
	server.Start()
}

func TestURIs(t *testing.T) {
	storetest.URIs{
		Right: map[string]string{
			"postgres://u:s3cret@a,b:5433/locks?sslmode=verify-full": "locks", "postgres://a": postgres.DefaultDatabase,
		},
		Wrong: map[string]string{
			"postgres://":                            "names no host",
			"postgres://host:70000/x":                "wrong hosts",
			"postgres://a:s3/cret@host/x":            "%2F",
			"postgres://host/x?sslmode=full":         "sslmode",
			"postgres://host/x?target=1":             `parameter "target"`,
			"postgres://host/x?connect_timeout=soon": "connect_timeout",
			"postgres://host/a/b":                    "wrong database",
		},
		Shown: map[string]string{
			"postgres://u:s3cret@a/x?sslpassword=s3cret": "postgres://u:xxxxx@a/x?sslpassword=xxxxx",
		},
		Nobody: func(addr string) string { return "postgres://u:s3cret@" + addr + "/x?sslmode=disable" },
	}.Run(t)
}

// option adds a setting of the connections to a URI.
func option(t *testing.T, uri, setting string) string {
	t.Helper()
	return with(t, uri, func(u *url.URL) { u.RawQuery += "&options=-c%20" + url.QueryEscape(setting) })
}

// see notes the settings under which locks are written.
var see = []string{
	`CREATE TABLE seen (setting text, default_value text, idle text)`,
	`CREATE FUNCTION see() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
		INSERT INTO seen SELECT setting, reset_val, current_setting('tcp_keepalives_idle')
			FROM pg_settings WHERE name = 'synchronous_commit';
		RETURN NULL;
	END $$`,
	`CREATE TRIGGER see AFTER INSERT ON default_locks FOR EACH ROW EXECUTE FUNCTION see()`,
}

// Sessions take on what is reloaded. A COMMIT of this store waits for the disk all the same, and for more where the
// server is asked for that. A server also notices soon that its client's machine is gone.
func TestReloadedSettings(t *testing.T) {
	server := testservers.Start(t, testservers.KindPostgres)
	uri := server.Database()
	s := storetest.Open(t, driver.Config{URI: uri})
	if err := postgres.Exec(t.Context(), uri, see...); err != nil {
		t.Fatal(err)
	}
	seq := int64(0)
	for setting, want := range map[string]string{
		"off": "on", "local": "on", "remote_write": "on", "remote_apply": "remote_apply",
	} {
		if err := postgres.Exec(t.Context(), uri,
			`ALTER SYSTEM SET synchronous_commit = `+setting, `SELECT pg_reload_conf()`); err != nil {
			t.Fatal(err)
		}
		seen := `SELECT count(*) FROM seen WHERE default_value = '` + setting + `' AND setting `
		found := int64(0)
		for deadline := time.Now().Add(patience); found == 0 && time.Now().Before(deadline); {
			seq++
			writer := driver.WriterID{Session: "s", Seq: seq}
			calls.Until(t, s, driver.Change{Doc: driver.Doc{
				Kind: driver.KindLock, ID: "g/" + setting, Rev: 1,
				WriterID: writer,
			}})
			calls.Until(t, s, driver.Change{Op: driver.Delete, IfRev: 1, Doc: driver.Doc{
				Kind: driver.KindLock, ID: "g/" + setting, WriterID: writer,
			}})
			found = value(t, uri, seen+`= '`+want+`'`)
		}
		// A transaction that the reload comes into keeps what it has begun with, which is enough as well.
		weak := value(t, uri, seen+`NOT IN ('on', 'remote_apply')`)
		if found == 0 || weak > 0 {
			t.Errorf("after a reload of %s, %d transactions were under %s, and %d under too little", setting, found,
				want, weak)
		}
	}
	if n := value(t, uri, `SELECT count(*) FROM seen WHERE idle <> '4'`); n > 0 {
		t.Errorf("%d transactions were of sessions that do not soon notice a lost client", n)
	}
}

func value(t *testing.T, uri, text string) int64 {
	t.Helper()
	n, err := postgres.Value(t.Context(), uri, text)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// Nothing hangs on the isolation that is the role's default.
func TestStoreUnderOtherIsolation(t *testing.T) {
	server := testservers.Shared(t, testservers.KindPostgres)
	storetest.Run(t, func(t *testing.T) storetest.Database {
		t.Helper()
		return storetest.Database{Open: database(option(t, server.Database(),
			"default_transaction_isolation=serializable")).Open}
	}, "set-up at once", "racing writers", "batch of outcomes")
}

// A log is that of the tables beside it, no matter who writes them.
func TestTwoSchemas(t *testing.T) {
	uri := testservers.Shared(t, testservers.KindPostgres).Database()
	if err := postgres.Exec(t.Context(), uri, `CREATE SCHEMA a`, `CREATE SCHEMA b`); err != nil {
		t.Fatal(err)
	}
	in := func(schema string) string {
		return with(t, uri, func(u *url.URL) { u.RawQuery += "&search_path=" + schema })
	}
	first, second := storetest.Open(t, driver.Config{URI: in("a")}), storetest.Open(t, driver.Config{URI: in("b")})
	calls.Until(t, first, increment("g"))
	calls.Until(t, second, increment("g"))
	if err := postgres.Exec(t.Context(), in("b"), `UPDATE a.default_groups SET count = count + 1`); err != nil {
		t.Fatal(err)
	}
	for schema, want := range map[string]int64{"a": 2, "b": 1} {
		if n := value(t, uri, `SELECT count(*) FROM `+schema+`.default_notifications`); n != want {
			t.Errorf("the log of schema %s has %d lines, want %d", schema, n, want)
		}
	}
	if err := postgres.Exec(t.Context(), uri, `UPDATE a.default_groups SET count = count + 1`); err != nil {
		t.Errorf("under a search_path without the tables: %v", err)
	}
}
