package mysql_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/shardctl/shardctl/pkg/store/storetest"
	"github.com/shardctl/shardctl/test/testprocess"
	"github.com/shardctl/shardctl/test/testservers"
)

// Another authority signs for both sides, and the server is restarted with it.
func TestRenewed(t *testing.T) {
	cert, key := testprocess.Certificate(t, "app")
	next, nextKey := testprocess.Certificate(t, "app")
	dir := t.TempDir()
	if err := os.Chmod(filepath.Dir(dir), 0o755); err != nil { // the server's user passes through
		t.Fatal(err)
	}
	server := testservers.Start(t, testservers.KindMariaDB,
		"ssl-cert="+readable(t, dir, "cert.pem", cert), "ssl-key="+readable(t, dir, "key.pem", key),
		"ssl-ca="+readable(t, dir, "ca.pem", cert))
	link := server.Link()
	uri := server.Database()
	exec(t, server, fmt.Sprintf("ALTER USER %s@'%%' REQUIRE X509", databaseOf(uri)))
	storetest.Renewed{
		URI:   func(f storetest.Files) string { return server.Via(link, uri) + f.Params() },
		Old:   storetest.Files{Authority: cert, Cert: cert, Key: key},
		New:   storetest.Files{Authority: next, Cert: next, Key: nextKey},
		Break: link.Cut,
		Restart: func() {
			readable(t, dir, "cert.pem", next)
			readable(t, dir, "key.pem", nextKey)
			readable(t, dir, "ca.pem", next)
			server.Stop()
			server.Start()
		},
	}.Run(t)
}

func TestPasswords(t *testing.T) {
	server := testservers.Shared(t, testservers.KindMariaDB)
	link := server.Link()
	uri := server.Database()
	user := databaseOf(uri)
	change := func(_, now string) {
		exec(t, server, fmt.Sprintf("ALTER USER %s@'%%' IDENTIFIED BY '%s'", user, now))
		link.Cut()
	}
	change("", storetest.FirstPassword)
	storetest.Passwords{
		WatchEnds: true, // a server that refuses the log-in ends it
		URI: func(password string) string {
			_, after, _ := strings.Cut(server.Via(link, uri), "@")
			return "mysql://" + user + ":" + password + "@" + after
		},
		Change: change,
	}.Run(t)
}
