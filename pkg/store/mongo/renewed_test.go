package mongo_test

import (
	"net/url"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/shardctl/shardctl/pkg/store/storetest"
	"github.com/shardctl/shardctl/test/testmongo"
)

// Another authority signs for both sides, and the server is restarted with it.
func TestRenewed(t *testing.T) {
	t.Parallel()
	cert, both := identity(t, "127.0.0.1")
	next, nextBoth := identity(t, "127.0.0.1")
	tls := &testmongo.TLS{Identity: readFile(t, both), Authorities: readFile(t, cert)}
	rs := testmongo.New(t, testmongo.Options{Nodes: 1, Auth: true, TLS: tls})
	must(t, rawDatabase(t, testmongo.WithDatabase(rs.RootURI(), "$external")).RunCommand(t.Context(), bson.D{
		{Key: "createUser", Value: "CN=127.0.0.1"},
		{Key: "roles", Value: bson.A{bson.M{"role": "readWrite", "db": "shardctl"}}},
	}).Err())
	restart := func() { must(t, rs.Nodes()[0].Restart(t.Context())) }
	storetest.Renewed{
		WatchEnds: true,
		URI: func(f storetest.Files) string {
			return rs.URI() + "&" + url.Values{
				"authMechanism": {"MONGODB-X509"}, "authSource": {"$external"}, "tls": {"true"},
				"tlsCAFile": {f.Authority}, "tlsCertificateKeyFile": {f.Cert},
			}.Encode()
		},
		Old:   storetest.Files{Authority: cert, Cert: both},
		New:   storetest.Files{Authority: next, Cert: nextBoth},
		Break: restart,
		Restart: func() {
			tls.Identity, tls.Authorities = readFile(t, nextBoth), readFile(t, next)
			restart()
		},
	}.Run(t)
}

func TestPasswords(t *testing.T) {
	t.Parallel()
	rs := testmongo.New(t, testmongo.Options{Nodes: 1, Auth: true})
	run := func(command bson.D) {
		t.Helper()
		must(t, rawDatabase(t, testmongo.WithDatabase(rs.RootURI(), "admin")).RunCommand(t.Context(), command).Err())
	}
	run(bson.D{
		{Key: "createUser", Value: "app"},
		{Key: "pwd", Value: storetest.FirstPassword},
		{Key: "roles", Value: bson.A{bson.M{"role": "readWrite", "db": "shardctl"}}},
	})
	storetest.Passwords{
		WatchEnds: true,
		URI:       func(password string) string { return rs.URIAs("app", password) },
		Change: func(_, now string) {
			run(bson.D{{Key: "updateUser", Value: "app"}, {Key: "pwd", Value: now}})
			must(t, rs.Nodes()[0].Restart(t.Context()))
		},
	}.Run(t)
}
