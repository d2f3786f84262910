package etcd_test

import (
	"path/filepath"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

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
	server := testservers.Start(t, testservers.KindEtcd, "client-transport-security:",
		`  cert-file: "`+place("cert.pem", cert)+`"`, `  key-file: "`+place("key.pem", key)+`"`,
		`  trusted-ca-file: "`+place("ca.pem", cert)+`"`, "  client-cert-auth: true")
	link := server.Link()
	storetest.Renewed{
		WatchEnds: true,
		URI:       func(f storetest.Files) string { return "etcd://" + link.Addr + "/p" + f.Params() },
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
	server, root := guarded(t)
	link := server.Link()
	admit(t, root, "app", "p/default/", clientv3.PermissionType(clientv3.PermReadWrite))
	change := func(_, now string) {
		t.Helper()
		if _, err := root.UserChangePassword(t.Context(), "app", now); err != nil {
			t.Fatal(err)
		}
		link.Cut()
	}
	change("", storetest.FirstPassword)
	storetest.Passwords{
		WatchEnds: true,
		URI:       func(password string) string { return "etcd://app:" + password + "@" + link.Addr + "/p" },
		Change:    change,
	}.Run(t)
}
