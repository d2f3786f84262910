package zookeeper_test

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/storetest"
	"github.com/shardctl/shardctl/pkg/store/zookeeper"
	"github.com/shardctl/shardctl/test/testprocess"
	"github.com/shardctl/shardctl/test/testservers"
)

// with puts a user and a password into a URI.
func with(uri, user string) string {
	return strings.Replace(uri, "zk://", "zk://"+user+":secret-"+user+"@", 1)
}

// A chroot that is not there is made, and belongs to the user. Who only looks makes none.
func TestChrootIsNotThere(t *testing.T) {
	uri := testservers.Shared(t, testservers.KindZooKeeper).Database()
	conn, chroot := raw(t, uri)
	o := zookeeper.Options{URI: with(uri, "app") + "/deeper/still", Timeout: patient}
	looks := o
	looks.Existing = true
	storetest.WantRefused(t, looks, driver.ErrInvalid, "no replica has set up "+chroot+"/deeper/still/shardctl/default yet")
	s := storetest.Open(t, o)
	apply(t.Context(), t, s, driver.Applied, put(lock("g/a"), 0))
	if _, _, err := conn.GetACL(chroot + "/deeper"); !errors.Is(err, zk.ErrNoAuth) {
		t.Errorf("anyone sees the rights of the chroot: %v", err)
	}
}

func TestNobodyAnswers(t *testing.T) {
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	must(t, err)
	addr := l.Addr().String()
	_ = l.Close()
	storetest.WantRefused(t, driver.Config{URI: "zk://" + addr, Timeout: time.Second}, driver.ErrUnavailable,
		"no session with ZooKeeper", "refused")
}

// Least rights: on the chroot, the right to create and to read. All below it belongs to the user alone.
func TestUsers(t *testing.T) {
	uri := testservers.Shared(t, testservers.KindZooKeeper).Database()
	conn, chroot := raw(t, uri)
	acl := append(zk.DigestACL(zk.PermRead|zk.PermCreate, "app", "secret-app"),
		zk.DigestACL(zk.PermAll, "ops", "secret-ops")...)
	_, err := conn.SetACL(chroot, acl, -1)
	must(t, err)
	for _, o := range []zookeeper.Options{
		{URI: uri},
		{URI: strings.Replace(with(uri, "app"), "secret", "wrong-secret", 1)},
	} {
		o.Timeout = patient
		storetest.WantRefused(t, o, driver.ErrInvalid, "may not do this below "+chroot, "wrong password, or grant cdrw there")
	}
	storetest.Open(t, driver.Config{URI: with(uri, "app")})
	found, _, err := conn.GetACL(chroot + "/shardctl/default/schema")
	if !errors.Is(err, zk.ErrNoAuth) {
		t.Errorf("anyone sees rights %v, %v", found, err)
	}
	storetest.WantRefused(t, driver.Config{URI: with(uri, "other"), Timeout: patient}, driver.ErrInvalid, "user other")

	storetest.Rights{
		Writer: driver.Config{URI: with(uri, "app")}, Reader: driver.Config{URI: with(uri, "ops")}, Grant: func() {
			must(t, conn.AddAuth("digest", []byte("app:secret-app")))
			readable(t, conn, chroot, append(zk.DigestACL(zk.PermRead, "ops", "secret-ops"),
				zk.DigestACL(zk.PermAll, "app", "secret-app")...))
		},
	}.Run(t)
}

// readable sets the rights of all znodes below a path.
func readable(t *testing.T, conn *zk.Conn, path string, acl []zk.ACL) {
	t.Helper()
	names, _, err := conn.Children(path)
	must(t, err)
	for _, name := range names {
		_, err := conn.SetACL(path+"/"+name, acl, -1)
		must(t, err)
		readable(t, conn, path+"/"+name, acl)
	}
}

func TestNothingSetUpYet(t *testing.T) {
	uri := testservers.Shared(t, testservers.KindZooKeeper).Database()
	storetest.WantRefused(t, driver.Config{URI: uri, Timeout: patient, Existing: true}, driver.ErrInvalid,
		"no replica has set up /")
}

// An old server: what it says of itself is enough.
func TestTooOld(t *testing.T) {
	server := testservers.Shared(t, testservers.KindZooKeeper)
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	must(t, err)
	defer func() { _ = l.Close() }()
	go pretend(l, server.Addr)
	uri := strings.Replace(server.Database(), server.Addr, l.Addr().String(), 1)
	storetest.WantRefused(t, driver.Config{URI: uri, Timeout: patient}, driver.ErrInvalid,
		"ZooKeeper 3.4.14 is too old, want 3.5 or later")
}

// pretend answers srvr as an old server does, and passes all else on.
func pretend(l net.Listener, addr string) {
	for {
		client, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer func() { _ = client.Close() }()
			begin := make([]byte, 4)
			if _, err := client.Read(begin); err != nil {
				return
			}
			if string(begin) == "srvr" {
				_, _ = fmt.Fprint(client, "Zookeeper version: 3.4.14-4c25d480, built on 03/06/2019 16:18 GMT\n")
				return
			}
			server, err := net.Dial("tcp", addr)
			if err != nil {
				return
			}
			defer func() { _ = server.Close() }()
			_, _ = server.Write(begin)
			go func() { pass(client, server) }()
			pass(server, client)
		}()
	}
}

func pass(to, from net.Conn) {
	buffer := make([]byte, 1<<16)
	for {
		n, err := from.Read(buffer)
		if _, failed := to.Write(buffer[:n]); err != nil || failed != nil {
			_ = to.Close()
			return
		}
	}
}

func TestTLS(t *testing.T) {
	cert, key := testprocess.Certificate(t, "app")
	pem := filepath.Join(t.TempDir(), "server.pem")
	both, err := os.ReadFile(key)
	must(t, err)
	chain, err := os.ReadFile(cert)
	must(t, err)
	must(t, os.WriteFile(pem, append(both, chain...), 0o600))
	ports, err := testprocess.FreePorts(t.Context(), 1)
	must(t, err)
	server := testservers.Start(t, testservers.KindZooKeeper,
		"serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory",
		fmt.Sprintf("secureClientPort=%d", ports[0]),
		"ssl.keyStore.location="+pem, "ssl.trustStore.location="+cert, "ssl.clientAuth=need",
		"ssl.keyStore.type=PEM", "ssl.trustStore.type=PEM",
		"authProvider.x509=org.apache.zookeeper.server.auth.X509AuthenticationProvider")
	uri := strings.Replace(server.Database(), server.Addr, fmt.Sprintf("127.0.0.1:%d", ports[0]), 1)
	other, otherKey := testprocess.Certificate(t, "other")
	refused := storetest.Refusal{Kind: driver.ErrUnavailable, Says: "certificate"}
	storetest.TLS{
		URI:       func(f storetest.Files) string { return uri + f.Params() },
		Right:     storetest.Files{Authority: cert, Cert: cert, Key: key},
		Stranger:  storetest.Files{Authority: other, Cert: other, Key: otherKey},
		Untrusted: "the server's certificate is not trusted", Without: refused, Strange: refused,
	}.Run(t)
}

func TestProblemsAndInspection(t *testing.T) {
	s := storetest.Open(t, driver.Config{
		URI: testservers.Shared(t, testservers.KindZooKeeper).Database(), Timeout: patient,
	})
	if all := store.Problems(s); len(all) != 1 || all[0].Reason != zookeeper.ReasonStandalone {
		t.Errorf("problems %+v, want that the server is alone", all)
	}
	found, err := store.Inspect(t.Context(), s)
	must(t, err)
	if !strings.HasPrefix(found.Server, "ZooKeeper 3.") {
		t.Errorf("server %q", found.Server)
	}
	text := fmt.Sprintf("%+v", found.Settings)
	for _, part := range []string{
		", standalone Want: Holds:true", "servers that vote Value:1 Want:3 or more Holds:false",
		"zookeeper.forceSync",
	} {
		if !strings.Contains(text, part) {
			t.Errorf("settings %s lack %q", text, part)
		}
	}
}

// Rights on the chroot are not needed where an administrator has made what is in it.
func TestBaseThatIsThere(t *testing.T) {
	uri := testservers.Shared(t, testservers.KindZooKeeper).Database()
	conn, chroot := raw(t, uri)
	for _, path := range []string{chroot + "/shardctl", chroot + "/shardctl/default"} {
		_, err := conn.Create(path, nil, 0, zk.WorldACL(zk.PermAll))
		must(t, err)
	}
	for _, path := range []string{chroot, chroot + "/shardctl"} {
		_, err := conn.SetACL(path, zk.WorldACL(zk.PermRead), -1)
		must(t, err)
	}
	s := storetest.Open(t, driver.Config{URI: uri})
	apply(t.Context(), t, s, driver.Applied, put(lock("g/a"), 0))
}

// Three servers raise no problem, and say how soon a silent leader is replaced.
func TestInspectEnsemble(t *testing.T) {
	ensemble := testservers.StartZooKeepers(t, 3)
	s := storetest.Open(t, driver.Config{URI: ensemble.Database()})
	if all := store.Problems(s); len(all) > 0 {
		t.Errorf("problems %+v", all)
	}
	found, err := store.Inspect(t.Context(), s)
	must(t, err)
	text := fmt.Sprintf("%+v", found.Settings)
	for _, part := range []string{
		", leader Want:", ", follower Want:", "servers that vote Value:3 Want:3 or more Holds:true",
		"2s until a silent leader is replaced",
	} {
		if !strings.Contains(text, part) {
			t.Errorf("settings %s lack %q", text, part)
		}
	}
}
