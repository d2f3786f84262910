package access

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-logr/logr"
)

// authority signs certificates for 127.0.0.1.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T, name string) authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return authority{cert, key}
}

// issue writes a certificate with that serial number and its key.
func (a authority) issue(t *testing.T, serial int64, certFile, keyFile string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: big.NewInt(serial), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}, a.cert, key.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	writePEM(t, certFile, "CERTIFICATE", der)
	writePEM(t, keyFile, "PRIVATE KEY", private)
}

// writePEM replaces the file as Kubernetes does: by another one.
func writePEM(t *testing.T, path, kind string, der []byte) {
	t.Helper()
	fresh := path + ".new"
	if err := os.WriteFile(fresh, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(fresh, path); err != nil {
		t.Fatal(err)
	}
}

// serial asks the server once, over a connection of its own, and returns which certificate it showed.
func serial(client *http.Client, url string) (int64, error) {
	resp, err := client.Get(url)
	if err != nil {
		return 0, err
	}
	defer func() { _ = resp.Body.Close() }()
	return resp.TLS.PeerCertificates[0].SerialNumber.Int64(), nil
}

// TestFilesAreReadAgain holds that a renewed certificate and a new authority count without a restart, and that files
// that cannot be used change nothing.
func TestFilesAreReadAgain(t *testing.T) {
	dir := t.TempDir()
	certFile, keyFile, caFile := filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key"),
		filepath.Join(dir, "ca.crt")
	first := newAuthority(t, "first")
	first.issue(t, 1, certFile, keyFile)
	writePEM(t, caFile, "CERTIFICATE", first.cert.Raw)

	pair, err := newPair(certFile, keyFile, logr.Discard())
	if err != nil {
		t.Fatal(err)
	}
	pair.setClock(everLater())
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // of handshakes that fail
	server.Listener = tls.NewListener(server.Listener, serving(pair))
	server.Start()
	defer server.Close()

	trusted, err := newTrusting(caFile, logr.Discard())
	if err != nil {
		t.Fatal(err)
	}
	trusted.transport.setClock(everLater())
	client := &http.Client{Transport: trusted}
	shown := func(what string, want int64) {
		t.Helper()
		trusted.transport.Get().CloseIdleConnections() // each question makes a connection
		got, err := serial(client, "https://"+server.Listener.Addr().String())
		if got != want || want == 0 && err == nil {
			t.Errorf("%s: certificate %d, %v; want %d", what, got, err, want)
		}
	}
	shown("at the start", 1)
	if trusted.transport.Get().Proxy != nil {
		t.Error("a proxy of the environment comes between replicas")
	}
	first.issue(t, 2, certFile, keyFile)
	shown("renewed", 2)
	if err := os.WriteFile(keyFile, []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	shown("with a key that cannot be used", 2)
	if err := os.Remove(keyFile); err != nil {
		t.Fatal(err)
	}
	shown("without a key", 2)
	second := newAuthority(t, "second")
	second.issue(t, 3, certFile, keyFile)
	shown("by an authority that is not trusted yet", 0)
	writePEM(t, caFile, "CERTIFICATE", second.cert.Raw)
	shown("by the new authority", 3)
}

// everLater is a clock by which every look is due.
func everLater() func() time.Time {
	now := time.Now()
	return func() time.Time { now = now.Add(Recheck); return now } // called under the lock of one value
}

// TestRefusedAtTheStart holds that files that cannot be used at first are an error.
func TestRefusedAtTheStart(t *testing.T) {
	dir := t.TempDir()
	empty := filepath.Join(dir, "empty.pem")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	missing := filepath.Join(dir, "missing.pem")
	for _, path := range []string{empty, missing} {
		if _, err := ServerTLS(path, path, logr.Discard()); err == nil {
			t.Errorf("%s serves", path)
		}
		if _, err := Transport(path, logr.Discard()); err == nil {
			t.Errorf("%s is trusted", path)
		}
	}
}
