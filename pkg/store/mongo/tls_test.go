package mongo_test

import (
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/shardctl/shardctl/pkg/store"
	"github.com/shardctl/shardctl/pkg/store/mongo"
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
	with := func(authority, own string) string {
		params := url.Values{"authMechanism": {"MONGODB-X509"}, "authSource": {"$external"}, "tls": {"true"}}
		params.Set("tlsCAFile", authority)
		if own != "" {
			params.Set("tlsCertificateKeyFile", own)
		}
		return rs.URI() + "&" + params.Encode()
	}
	s := open(t, mongo.Options{URI: with(serverCert, client)})
	var w writer
	apply(t, s, patient, store.Applied, w.put(lock("g/a"), 0))

	for name, tt := range map[string]struct {
		uri  string
		kind error
		says string
	}{
		"another authority": {with(strangerCert, client), store.ErrInvalid, "tlsCAFile"},
		"no such file":      {with("/missing.pem", client), store.ErrInvalid, "/missing.pem"},
		// A server that asks for more closes the connection and says nothing: it may as well be going down.
		"no certificate": {with(serverCert, ""), store.ErrUnavailable, "tlsCertificateKeyFile"},
		"a stranger's":   {with(serverCert, stranger), store.ErrUnavailable, "tlsCertificateKeyFile"},
		"no such user":   {with(serverCert, server), store.ErrInvalid, "the log-in failed"},
	} {
		t.Run(name, func(t *testing.T) {
			// The driver tries each half second. An attempt that the time limit cuts off would show no reason.
			const between = 4800 * time.Millisecond
			_, err := mongo.Open(t.Context(), mongo.Options{URI: tt.uri, Timeout: between})
			if !errors.Is(err, tt.kind) || !strings.Contains(err.Error(), tt.says) ||
				strings.ContainsAny(err.Error(), "\n\t") {
				t.Errorf("%v, want %v in one line that says %s", err, tt.kind, tt.says)
			}
		})
	}
}
