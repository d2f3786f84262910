package access

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"os"

	"github.com/go-logr/logr"
)

// ServerTLS returns the settings of a listener that shows the certificate in certFile with the key in keyFile, both
// PEM. It fails when they cannot be used now.
func ServerTLS(certFile, keyFile string, log logr.Logger) (*tls.Config, error) {
	pair, err := newPair(certFile, keyFile, log)
	if err != nil {
		return nil, err
	}
	return serving(pair), nil
}

func newPair(certFile, keyFile string, log logr.Logger) (*watched[*tls.Certificate], error) {
	return watch("certificate", log, func(contents [][]byte) (*tls.Certificate, error) {
		pair, err := tls.X509KeyPair(contents[0], contents[1])
		return &pair, err
	}, certFile, keyFile)
}

func serving(pair *watched[*tls.Certificate]) *tls.Config {
	return &tls.Config{
		MinVersion:     tls.VersionTLS12,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return pair.Get(), nil },
	}
}

// CertPool reads the authorities in a PEM file. It fails when there is none in it.
func CertPool(caFile string) (*x509.CertPool, error) {
	//nolint:gosec // G304: the file is the one that the configuration or the caller names
	pem, err := os.ReadFile(caFile)
	if err != nil {
		return nil, err
	}
	return poolOf(caFile, pem)
}

func poolOf(caFile string, pem []byte) (*x509.CertPool, error) {
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("%s: no certificate in it; want PEM", caFile)
	}
	return pool, nil
}

// Transport returns a transport that trusts the authorities in caFile alone, for https. It fails when the file cannot
// be used now. New connections are made after it has changed. No proxy of the environment is asked: it is between
// replicas.
func Transport(caFile string, log logr.Logger) (http.RoundTripper, error) {
	return newTrusting(caFile, log)
}

// trusting asks through a transport made for the present content of a file of authorities.
type trusting struct {
	transport *watched[*http.Transport]
}

func newTrusting(caFile string, log logr.Logger) (*trusting, error) {
	var last *http.Transport // parse is called by one goroutine at a time
	transport, err := watch("certificate", log, func(contents [][]byte) (*http.Transport, error) {
		pool, err := poolOf(caFile, contents[0])
		if err != nil {
			return nil, err
		}
		if last != nil {
			last.CloseIdleConnections() // requests under way end by themselves
		}
		last = http.DefaultTransport.(*http.Transport).Clone() //nolint:forcetypeassert // the library's own
		last.Proxy = nil
		last.TLSClientConfig = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
		return last, nil
	}, caFile)
	return &trusting{transport}, err
}

func (t *trusting) RoundTrip(r *http.Request) (*http.Response, error) {
	return t.transport.Get().RoundTrip(r)
}
