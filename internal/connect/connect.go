// Package connect is what sources and listers that connect to a broker have in common: the fields that say who connects
// and by which certificates. It imports no client.
package connect

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"

	"github.com/shardctl/shardctl/internal/decode"
	"github.com/shardctl/shardctl/internal/field"
	"github.com/shardctl/shardctl/internal/variables"
)

// Login is who connects.
type Login struct {
	User, Password string
	PasswordFile   string // its content is the password
}

// Fields are user, password and passwordFile. Unset says who connects where they are left out; empty: no one in
// particular.
func (l *Login) Fields(unset string) field.List {
	return field.List{
		{Name: "user", Value: field.Text{To: &l.User}, Doc: "Who connects.", Unset: unset},
		Password(&l.Password), PasswordFile(&l.PasswordFile),
	}
}

// Password is the field of that name.
func Password(to *string) field.Field {
	return field.Field{
		Name: "password", Value: field.Text{To: to, Secret: true},
		Doc: "Best taken from the environment or from a file.",
	}
}

// PasswordFile is the field of that name.
func PasswordFile(to *string) field.Field {
	return field.Field{
		Name: "passwordFile", Value: field.Text{To: to},
		Doc: "File whose content is the password, less its trailing line ends. It is read again at each connect.",
	}
}

// ValidatePassword says whether the password is there twice.
func (l Login) ValidatePassword() []decode.FieldError {
	if l.Password == "" || l.PasswordFile == "" {
		return nil
	}
	return []decode.FieldError{{
		Path: []string{"passwordFile"}, Message: "is set together with password: use one of them",
	}}
}

// Validate is ValidatePassword, and says whether a user has no password.
func (l Login) Validate() []decode.FieldError {
	if l.User != "" && l.Password == "" && l.PasswordFile == "" {
		return []decode.FieldError{{Path: []string{"user"}, Message: "has no password: set password or passwordFile"}}
	}
	return l.ValidatePassword()
}

// ValidateUser says whether a password has no user.
func (l Login) ValidateUser() []decode.FieldError {
	switch {
	case l.User != "":
		return nil
	case l.Password != "":
		return []decode.FieldError{{Path: []string{"password"}, Message: "is set without user"}}
	case l.PasswordFile != "":
		return []decode.FieldError{{Path: []string{"passwordFile"}, Message: "is set without user"}}
	}
	return nil
}

// ReadPassword is the password, which is read from its file now where there is one. Call it for each connection. The
// fields hold no variables any more. Errors name the field, below the one given.
func (l Login) ReadPassword(below string) (string, error) {
	if l.PasswordFile == "" {
		return l.Password, nil
	}
	password, err := variables.ReadFile(l.PasswordFile)
	if err != nil {
		return "", fmt.Errorf("%s.passwordFile: %w", below, err)
	}
	return password, nil
}

// TLS are the PEM files by which connections are secured.
type TLS struct {
	CAFile            string // authorities to trust; empty: the system's
	CertFile, KeyFile string // of the client: both or neither
}

// Field is tls, for what doc says.
func (t *TLS) Field(doc string) field.Field {
	return field.Field{Name: "tls", Value: field.Mapping{Fields: t.Files(), Off: *t == (TLS{})}, Doc: doc}
}

// Files are the fields of tls.
func (t *TLS) Files() field.List {
	return field.List{
		CAFile(&t.CAFile),
		{
			Name: "certFile", Value: field.Text{To: &t.CertFile},
			Doc: "PEM file of the client's certificate. It goes with `keyFile`.",
		},
		{Name: "keyFile", Value: field.Text{To: &t.KeyFile}, Doc: "PEM file of its key. It goes with `certFile`."},
	}
}

// CAFile is the field of that name.
func CAFile(to *string) field.Field {
	return field.Field{
		Name: "caFile", Value: field.Text{To: to}, Doc: "PEM file of the authorities to trust.", Unset: "the system's",
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
