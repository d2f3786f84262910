package redis_test

import (
	"path/filepath"
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
	place := func(name string, from ...string) string {
		t.Helper()
		return testprocess.PutFile(t, filepath.Join(dir, name), from...)
	}
	ports, err := testprocess.FreePorts(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	server := testservers.Start(t, testservers.KindRedis, "tls-port "+itoa(ports[0]),
		"tls-cert-file "+place("cert.pem", cert), "tls-key-file "+place("key.pem", key),
		"tls-ca-cert-file "+place("ca.pem", cert), "tls-auth-clients yes")
	link := testprocess.Link(t, testprocess.Loopback+":"+itoa(ports[0]))
	storetest.Renewed{
		WatchEnds: true,
		URI:       func(f storetest.Files) string { return "rediss://" + link.Addr + f.Params() },
		Old:       storetest.Files{Authority: cert, Cert: cert, Key: key},
		New:       storetest.Files{Authority: next, Cert: next, Key: nextKey},
		Break:     link.Cut,
		Restart: func() {
			place("cert.pem", next)
			place("key.pem", nextKey)
			place("ca.pem", next)
			server.Stop()
			server.Start()
		},
	}.Run(t)
}

func TestPasswords(t *testing.T) {
	server := testservers.Start(t, testservers.KindRedis)
	link := server.Link()
	do(t, server.Addr, documented(t)...)
	change := func(_, now string) {
		t.Helper()
		do(t, server.Addr, "ACL", "SETUSER", "shardctl", "resetpass", ">"+now)
		link.Cut()
	}
	change("", storetest.FirstPassword)
	storetest.Passwords{
		WatchEnds: true,
		URI:       func(password string) string { return "redis://shardctl:" + password + "@" + link.Addr },
		Change:    change,
	}.Run(t)
}
