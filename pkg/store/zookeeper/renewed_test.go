package zookeeper_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-zookeeper/zk"

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
	must(t, err)
	server := testservers.Start(t, testservers.KindZooKeeper,
		"serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory",
		fmt.Sprintf("secureClientPort=%d", ports[0]),
		"ssl.keyStore.location="+place("server.pem", key, cert), "ssl.trustStore.location="+place("ca.pem", cert),
		"ssl.clientAuth=need", "ssl.keyStore.type=PEM", "ssl.trustStore.type=PEM",
		"authProvider.x509=org.apache.zookeeper.server.auth.X509AuthenticationProvider")
	link := testprocess.Link(t, fmt.Sprintf("%s:%d", testprocess.Loopback, ports[0]))
	uri := server.Via(link, server.Database())
	storetest.Renewed{
		WatchEnds: true,
		URI:       func(f storetest.Files) string { return uri + f.Params() },
		Old:       storetest.Files{Authority: cert, Cert: cert, Key: key},
		New:       storetest.Files{Authority: next, Cert: next, Key: nextKey},
		Break:     link.Cut,
		Restart: func() {
			place("server.pem", nextKey, next)
			place("ca.pem", next)
			server.Stop()
			server.Start()
		},
	}.Run(t)
}

// ZooKeeper keeps no passwords: all that a user has made is given to the new one.
func TestPasswords(t *testing.T) {
	server := testservers.Shared(t, testservers.KindZooKeeper)
	link := server.Link()
	uri := server.Database()
	conn, chroot := raw(t, uri)
	storetest.Passwords{
		WatchEnds: true,
		URI: func(password string) string {
			return strings.Replace(server.Via(link, uri), "zk://", "zk://app:"+password+"@", 1)
		},
		Change: func(old, now string) {
			for _, password := range []string{old, now} {
				must(t, conn.AddAuth("digest", []byte("app:"+password)))
			}
			readable(t, conn, chroot, zk.DigestACL(zk.PermAll, "app", now))
			link.Cut()
		},
	}.Run(t)
}
