package access

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"

	"github.com/shardctl/shardctl/pkg/tasks/decode"
)

// TLS are the PEM files by which connections are secured.
type TLS struct {
	CAFile            string // authorities to trust; empty: the system's
	CertFile, KeyFile string // of the client: both or neither
}

// ParseTLS reads the field tls; n is nil where it is left out.
func ParseTLS(n *decode.Node, r *decode.Reader) TLS {
	return TLS{
		CAFile:   r.Text(n.Get("caFile"), ""),
		CertFile: r.Text(n.Get("certFile"), ""),
		KeyFile:  r.Text(n.Get("keyFile"), ""),
	}
}

// Validate says whether one of certificate and key is missing. Paths lead from the fields beside tls.
func (t TLS) Validate() []decode.FieldError {
	switch {
	case t.CertFile != "" && t.KeyFile == "":
		return []decode.FieldError{{Path: []string{"tls", "keyFile"}, Message: "is required with certFile"}}
	case t.KeyFile != "" && t.CertFile == "":
		return []decode.FieldError{{Path: []string{"tls", "certFile"}, Message: "is required with keyFile"}}
	}
	return nil
}

// Print is the field tls, as it is written; none where no file is named.
func (t TLS) Print() decode.Fields {
	if t == (TLS{}) {
		return nil
	}
	return decode.Pairs("tls", t.PrintFiles())
}

// PrintFiles are the fields of tls.
func (t TLS) PrintFiles() decode.Fields {
	return decode.Pairs(
		"caFile", decode.TextOrNil(t.CAFile),
		"certFile", decode.TextOrNil(t.CertFile),
		"keyFile", decode.TextOrNil(t.KeyFile),
	)
}

// Config reads the files. Call it for each connection, as certificates are renewed. The names of files hold no
// variables any more. Errors name the field, below that of the kind.
func (t TLS) Config(kind string) (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if t.CAFile != "" {
		pem, err := os.ReadFile(t.CAFile)
		if err != nil {
			return nil, fmt.Errorf("%s.tls.caFile: %w", kind, err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("%s.tls.caFile: %s holds no PEM certificate", kind, t.CAFile)
		}
	}
	if t.CertFile != "" || t.KeyFile != "" {
		pair, err := tls.LoadX509KeyPair(t.CertFile, t.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("%s.tls.certFile, keyFile: %w", kind, err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}
