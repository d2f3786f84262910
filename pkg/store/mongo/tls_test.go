package mongo_test

import (
	"net/url"
	"os"
	"path/filepath"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/shardctl/shardctl/pkg/store/driver"
	"github.com/shardctl/shardctl/pkg/store/storetest"
	"github.com/shardctl/shardctl/test/testmongo"
	"github.com/shardctl/shardctl/test/testprocess"
)

// identity writes a certificate and its key into one file, as MongoDB wants them.
func identity(t *testing.T, name string) (certFile, bothFile string) {
	t.Helper()
	certFile, keyFile := testprocess.Certificate(t, name)
	bothFile = filepath.Join(t.TempDir(), name+".pem")
	must(t, os.WriteFile(bothFile, append(readFile(t, certFile), readFile(t, keyFile)...), 0o600))
	return certFile, bothFile
}

func readFile(t *testing.T, path string) []byte {
	t.Helper()
	content, err := os.ReadFile(path)
	must(t, err)
	return content
}

// With TLS the server is verified by its authority, and the client logs in by its certificate, without a password.
func TestTLS(t *testing.T) {
	t.Parallel()
	serverCert, server := identity(t, "127.0.0.1")
	clientCert, client := identity(t, "shardctl")
	strangerCert, stranger := identity(t, "stranger")
	authorities := append(readFile(t, serverCert), readFile(t, clientCert)...)
	rs := testmongo.New(t, testmongo.Options{
		Nodes: 1, Auth: true, TLS: &testmongo.TLS{Identity: readFile(t, server), Authorities: authorities},
	})
	must(t, rawDatabase(t, testmongo.WithDatabase(rs.RootURI(), "$external")).RunCommand(t.Context(), bson.D{
		{Key: "createUser", Value: "CN=shardctl"},
		{Key: "roles", Value: bson.A{bson.M{"role": "readWrite", "db": "shardctl"}}},
	}).Err())
	uri := func(f storetest.Files) string {
		params := url.Values{"authMechanism": {"MONGODB-X509"}, "authSource": {"$external"}, "tls": {"true"}}
		params.Set("tlsCAFile", f.Authority)
		if f.Cert != "" {
			params.Set("tlsCertificateKeyFile", f.Cert)
		}
		return rs.URI() + "&" + params.Encode()
	}
	// A server that asks for more closes the connection and says nothing: it may as well be going down.
	refused := storetest.Refusal{Kind: driver.ErrUnavailable, Says: "tlsCertificateKeyFile"}
	storetest.TLS{
		URI:       uri,
		Right:     storetest.Files{Authority: serverCert, Cert: client},
		Stranger:  storetest.Files{Authority: strangerCert, Cert: stranger},
		Untrusted: "tlsCAFile", Without: refused, Strange: refused,
	}.Run(t)
	storetest.WantRefused(t, driver.Config{URI: uri(storetest.Files{Authority: serverCert, Cert: server})},
		driver.ErrInvalid, "the log-in failed")
}
