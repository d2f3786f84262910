package postgres_test

import (
	"net/url"
	"testing"

	"github.com/shardctl/shardctl/pkg/store/postgres"
	"github.com/shardctl/shardctl/pkg/store/storetest"
	"github.com/shardctl/shardctl/test/testprocess"
	"github.com/shardctl/shardctl/test/testservers"
)

// Another authority signs for both sides, and the server is restarted with it.
func TestRenewed(t *testing.T) {
	server := testservers.Start(t, testservers.KindPostgres)
	link := server.Link()
	uri := server.Database()
	cert, key := testprocess.Certificate(t, "127.0.0.1")
	next, nextKey := testprocess.Certificate(t, "127.0.0.1")
	secure(t, server, uri, cert, key)
	storetest.Renewed{
		URI: func(f storetest.Files) string {
			return with(t, server.Via(link, uri), func(u *url.URL) {
				u.RawQuery = url.Values{
					"sslmode": {"verify-full"}, "sslrootcert": {f.Authority}, "sslcert": {f.Cert}, "sslkey": {f.Key},
				}.Encode()
			})
		},
		Old:   storetest.Files{Authority: cert, Cert: cert, Key: key},
		New:   storetest.Files{Authority: next, Cert: next, Key: nextKey},
		Break: link.Cut,
		Restart: func() {
			site := server.Server().Site()
			for name, from := range map[string]string{"server.crt": next, "server.key": nextKey, "root.crt": next} {
				if err := site.WriteFile("data/"+name, readFile(t, from)); err != nil {
					t.Fatal(err)
				}
			}
			server.Stop()
			server.Start()
		},
	}.Run(t)
}

func TestPasswords(t *testing.T) {
	server := testservers.Start(t, testservers.KindPostgres, "password_encryption = 'scram-sha-256'")
	link := server.Link()
	uri := server.Database()
	run := func(statements ...string) {
		t.Helper()
		if err := postgres.Exec(t.Context(), uri, statements...); err != nil {
			t.Fatal(err)
		}
	}
	run("CREATE ROLE app LOGIN PASSWORD '"+storetest.FirstPassword+"'", "GRANT CREATE, USAGE ON SCHEMA public TO app")
	if err := server.Server().Site().WriteFile("data/pg_hba.conf", []byte(
		"host all app 127.0.0.1/32 scram-sha-256\n"+everybody("host")+"trust\n",
	)); err != nil {
		t.Fatal(err)
	}
	run("SELECT pg_reload_conf()")
	storetest.Passwords{
		URI: func(password string) string {
			return with(t, server.Via(link, uri), func(u *url.URL) { u.User = url.UserPassword("app", password) })
		},
		Change: func(_, now string) {
			run("ALTER ROLE app PASSWORD '" + now + "'")
			link.Cut()
		},
	}.Run(t)
}
