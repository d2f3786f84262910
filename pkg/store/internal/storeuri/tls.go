package storeuri

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"

	"github.com/shardctl/shardctl/pkg/store"
)

// Parameters of TLS.
const (
	paramTLS      = "tls"         // true or false
	paramCAFile   = "tlsCAFile"   // PEM: the authorities to trust; left out: the system's
	paramCertFile = "tlsCertFile" // PEM: this client's certificate, if it has one
	paramKeyFile  = "tlsKeyFile"  // PEM: its key
)

// TLSFiles are the files by which connections are secured.
type TLSFiles struct {
	On                        bool
	CAFile, CertFile, KeyFile string
}

// TLS are a URI's files. It is on by tls=true, by any file, and where always says that the scheme asks for it. Errors
// are a [store.FieldError]. No file is read.
func (u URI) TLS(always bool) (TLSFiles, error) {
	on, err := u.Bool(paramTLS)
	if err != nil {
		return TLSFiles{}, err
	}
	t := TLSFiles{
		On: on || always, CAFile: u.Param(paramCAFile), CertFile: u.Param(paramCertFile),
		KeyFile: u.Param(paramKeyFile),
	}
	refuse := func(text string) (TLSFiles, error) {
		return TLSFiles{}, &store.FieldError{Field: "uri", Text: text}
	}
	files := t.CAFile != "" || t.CertFile != "" || t.KeyFile != ""
	switch off := u.Param(paramTLS) == "false"; {
	case off && always:
		return refuse("has the parameter tls=false, which its scheme forbids")
	case off && files:
		return refuse("has the parameter tls=false beside files of TLS")
	case t.CertFile != "" && t.KeyFile == "":
		return refuse("has the parameter tlsCertFile, which needs tlsKeyFile")
	case t.KeyFile != "" && t.CertFile == "":
		return refuse("has the parameter tlsKeyFile, which needs tlsCertFile")
	}
	t.On = t.On || files
	return t, nil
}

// Config reads the files; nil where TLS is off. The client's certificate is read again at each handshake, as it may be
// renewed. Errors wrap [store.ErrInvalid].
func (t TLSFiles) Config() (*tls.Config, error) {
	if !t.On {
		return nil, nil //nolint:nilnil // no TLS is what drivers take nil for
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if t.CAFile != "" {
		pem, err := os.ReadFile(t.CAFile)
		if err != nil {
			return nil, fmt.Errorf("%s: %w: %w", paramCAFile, store.ErrInvalid, err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("%s: %w: %s holds no PEM certificate", paramCAFile, store.ErrInvalid, t.CAFile)
		}
	}
	if t.CertFile == "" {
		return config, nil
	}
	if _, err := t.pair(); err != nil {
		return nil, fmt.Errorf("%w: %w", store.ErrInvalid, err)
	}
	config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return t.pair() }
	return config, nil
}

// Untrusted says whether the server's certificate was refused, as nothing but another set-up changes.
func Untrusted(err error) bool {
	_, verification := errors.AsType[*tls.CertificateVerificationError](err)
	_, authority := errors.AsType[x509.UnknownAuthorityError](err)
	_, host := errors.AsType[x509.HostnameError](err)
	return verification || authority || host
}

func (t TLSFiles) pair() (*tls.Certificate, error) {
	pair, err := tls.LoadX509KeyPair(t.CertFile, t.KeyFile)
	if err != nil {
		return nil, fmt.Errorf("%s, %s: %w", paramCertFile, paramKeyFile, err)
	}
	return &pair, nil
}
