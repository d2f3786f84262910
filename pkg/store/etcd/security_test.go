package etcd_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap" //nolint:depguard // etcd's client takes its logger in this form alone

	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/etcd"
	"github.com/shardctl/shardctl/pkg/store/storetest"
	"github.com/shardctl/shardctl/test/testprocess"
	"github.com/shardctl/shardctl/test/testservers"
)

// tokenTTL is how long a log-in lasts that is not used, in seconds.
const tokenTTL = 1

// guarded is an etcd with log-ins. Role and user shardctl have the rights that docs/stores/etcd.md names.
func guarded(t *testing.T) (server *testservers.Server, root *clientv3.Client) {
	t.Helper()
	server = testservers.Start(t, testservers.KindEtcd, fmt.Sprintf("auth-token-ttl: %d", tokenTTL))
	plain := raw(t, "etcd://"+server.Addr)
	ctx := t.Context()
	must := func(_ any, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(plain.RoleAdd(ctx, "root"))
	must(plain.UserAdd(ctx, "root", "r"))
	must(plain.UserGrantRole(ctx, "root", "root"))
	must(plain.AuthEnable(ctx))
	root, err := clientv3.New(clientv3.Config{
		Endpoints: []string{server.Addr}, Username: "root", Password: "r", Logger: zap.NewNop(),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = root.Close() })
	return server, root
}

// admit makes a user who may do this with the keys of one prefix.
func admit(t *testing.T, root *clientv3.Client, user, prefix string, may clientv3.PermissionType) {
	t.Helper()
	ctx := t.Context()
	var errs []error
	add := func(_ any, err error) { errs = append(errs, err) }
	add(root.RoleAdd(ctx, user))
	add(root.RoleGrantPermission(ctx, user, prefix, clientv3.GetPrefixRangeEnd(prefix), may))
	add(root.UserAdd(ctx, user, "s3cret"))
	add(root.UserGrantRole(ctx, user, user))
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// The whole suite runs with the rights that the documentation names, but for the part that writes around the store.
func TestStoreWithLeastRights(t *testing.T) {
	server, root := guarded(t)
	storetest.Run(t, func(t *testing.T) storetest.Database {
		t.Helper()
		name := testservers.Name()
		admit(t, root, name, name+"/default/", clientv3.PermissionType(clientv3.PermReadWrite))
		db := database(t, "etcd://"+name+":s3cret@"+server.Addr+"/"+name)
		db.ShiftSchema = nil
		return db
	}, "create", "read", "batch of outcomes", "linearizable", "query", "watch", "interests", "expiry", "ended context",
		"set-up at once", "closed")
}

func TestLogIns(t *testing.T) {
	server, root := guarded(t)
	admit(t, root, "shardctl", "p/default/", clientv3.PermissionType(clientv3.PermReadWrite))
	admit(t, root, "looks", "p/default/", clientv3.PermissionType(clientv3.PermRead))
	at := func(user, prefix string) string { return "etcd://" + user + server.Addr + "/" + prefix }
	for name, tt := range map[string]struct{ uri, want string }{
		"nobody":       {at("", "p"), "etcd asks for a log-in"},
		"password":     {at("shardctl:wrong-s3cret@", "p"), "wrong user or password"},
		"user":         {at("nobody:s3cret@", "p"), "wrong user or password"},
		"other prefix": {at("shardctl:s3cret@", "q"), `"shardctl" lacks the permission readwrite on the prefix q/default/`},
		"read alone":   {at("looks:s3cret@", "p"), `user "looks" lacks the permission readwrite`},
	} {
		t.Run(name, func(t *testing.T) {
			storetest.WantRefused(t, driver.Config{URI: tt.uri}, driver.ErrInvalid, tt.want)
		})
	}
	storetest.WantRefused(t, driver.Config{URI: at("looks:s3cret@", "p"), Existing: true}, driver.ErrInvalid,
		"no replica has set up this cluster")
	storetest.Rights{
		Writer: driver.Config{URI: at("shardctl:s3cret@", "p")}, Reader: driver.Config{URI: at("looks:s3cret@", "p")},
	}.Run(t)
}

// Who may do everything but watch is informed of it when the store is opened, and by the error of each watch.
func TestWatchIsRefused(t *testing.T) {
	server, root := guarded(t)
	const prefix, user = "p/default/", "deaf"
	admit(t, root, user, prefix+".note/", clientv3.PermissionType(clientv3.PermWrite))
	for _, besides := range [][2]string{{prefix, prefix + ".note/"}, {prefix + ".note0", prefix + "\xff"}} {
		if _, err := root.RoleGrantPermission(t.Context(), user, besides[0], besides[1],
			clientv3.PermissionType(clientv3.PermReadWrite)); err != nil {
			t.Fatal(err)
		}
	}
	s := storetest.Open(t, driver.Config{URI: "etcd://" + user + ":s3cret@" + server.Addr + "/p"})
	const advice = "etcdctl role grant-permission ROLE --prefix=true readwrite " + prefix
	problems := store.Problems(s)
	if len(problems) != 1 || problems[0].Reason != etcd.ReasonPolled ||
		!strings.Contains(problems[0].Message, advice) {
		t.Errorf("problems %+v, want that it is polled", problems)
	}
	if _, err := s.Watch(t.Context(), driver.Interest{}); !errors.Is(err, driver.ErrInvalid) ||
		!strings.Contains(err.Error(), advice) {
		t.Errorf("watch: %v, want what to grant", err)
	}
	if out := apply(t.Context(), t, s, create("g/a")); out.Status != driver.Applied {
		t.Errorf("write: %+v", out)
	}
	if _, err := root.RoleGrantPermission(t.Context(), user, prefix, clientv3.GetPrefixRangeEnd(prefix),
		clientv3.PermissionType(clientv3.PermReadWrite)); err != nil {
		t.Fatal(err)
	}
	notified(t, s, watching(t, s), "granted")
}

// A log-in that etcd has let expire is renewed by the call that meets it, and watches go on.
func TestLogInExpires(t *testing.T) {
	server, root := guarded(t)
	admit(t, root, "shardctl", "p/default/", clientv3.PermissionType(clientv3.PermReadWrite))
	s := storetest.Open(t, driver.Config{URI: "etcd://shardctl:s3cret@" + server.Addr + "/p"})
	notes := watching(t, s)
	for i := range 3 {
		// Nothing reports that a token has expired. etcd looks through them each second.
		time.Sleep((tokenTTL + 2) * time.Second)
		if out := apply(t.Context(), t, s, create(fmt.Sprint("g/", i))); out.Status != driver.Applied {
			t.Fatalf("after the log-in has expired: %+v", out)
		}
		notified(t, s, notes, fmt.Sprint("g", i))
	}
	// So does one that was made invalid by a change of rights.
	if _, err := root.UserChangePassword(t.Context(), "shardctl", "other"); err != nil {
		t.Fatal(err)
	}
	out := apply(t.Context(), t, s, create("g/after"))
	if out.Status != driver.Unknown || out.Err == nil || strings.Contains(out.Err.Error(), "s3cret") {
		t.Errorf("after the password was changed: %+v", out)
	}
}

func TestTLS(t *testing.T) {
	cert, key := testprocess.Certificate(t, "shardctl")
	other, otherKey := testprocess.Certificate(t, "shardctl")
	server := testservers.Start(t, testservers.KindEtcd, "client-transport-security:", `  cert-file: "`+cert+`"`,
		`  key-file: "`+key+`"`, `  trusted-ca-file: "`+cert+`"`, "  client-cert-auth: true")
	refused := storetest.Refusal{Kind: driver.ErrInvalid, Says: "the server refuses this client's certificate"}
	storetest.TLS{
		URI:       func(f storetest.Files) string { return "etcd://" + server.Addr + "/p" + f.Params() },
		Right:     storetest.Files{Authority: cert, Cert: cert, Key: key},
		Stranger:  storetest.Files{Authority: other, Cert: other, Key: otherKey},
		Untrusted: "no known authority has signed", Without: refused, Strange: refused,
	}.Run(t)
	storetest.WantRefused(t, driver.Config{URI: "etcd://" + server.Addr + "/p", Timeout: 5 * time.Second},
		driver.ErrUnavailable, "does it ask for TLS?")
	plain := testservers.Shared(t, testservers.KindEtcd)
	storetest.WantRefused(t, driver.Config{URI: plain.Database() + "?tls=true", Timeout: 5 * time.Second},
		driver.ErrUnavailable, "does it speak TLS?")
}
