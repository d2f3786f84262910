// Package access is what sources and listers that connect to a broker have in common: how fields that say where it is,
// who connects and by which certificates are read, checked, printed and expanded. It imports no client.
package access

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/shardctl/shardctl/pkg/tasks/decode"
)

// Login is who connects.
type Login struct {
	User, Password string
	PasswordFile   string // its content is the password
}

// ParseLogin reads the fields user, password and passwordFile of n, which is nil where they are left out.
func ParseLogin(n *decode.Node, r *decode.Reader) Login {
	return Login{
		User:         r.Text(n.Get("user"), ""),
		Password:     r.Text(n.Get("password"), ""),
		PasswordFile: r.Text(n.Get("passwordFile"), ""),
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

// Print are the fields as they are written, without the password.
func (l Login) Print() decode.Fields {
	return decode.Pairs(
		"user", decode.TextOrNil(l.User),
		"password", decode.HiddenPassword(l.Password),
		"passwordFile", decode.TextOrNil(l.PasswordFile),
	)
}

// ReadPassword is the password, which is read from its file now where there is one. Call it for each connection. The
// fields hold no variables any more. Errors name the field, below the one given.
func (l Login) ReadPassword(below string) (string, error) {
	if l.PasswordFile == "" {
		return l.Password, nil
	}
	password, err := decode.ReadFile(l.PasswordFile)
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

// Expander replaces the variables of a kind's fields, and gathers what is wrong, so that all of it is said at once.
// One goroutine uses it.
type Expander struct {
	kind   string
	expand func(field, text string) (string, error)
	errs   []error
}

// NewExpander is for the fields below that of a kind. Expand replaces the variables of one.
func NewExpander(kind string, expand func(field, text string) (string, error)) *Expander {
	return &Expander{kind: kind, expand: expand}
}

// Text is a field's text; empty where it is wrong.
func (e *Expander) Text(field, text string) string {
	value, err := e.expand(e.kind+"."+field, text)
	if err != nil {
		e.errs = append(e.errs, err)
		return ""
	}
	return value
}

// Texts is a field's list of texts.
func (e *Expander) Texts(field string, texts []string) []string {
	expanded := make([]string, len(texts))
	for i, text := range texts {
		expanded[i] = e.Text(fmt.Sprintf("%s[%d]", field, i), text)
	}
	return expanded
}

// Login are the fields of a login, which stand below a field, or below the kind where that is empty.
func (e *Expander) Login(below string, l Login) Login {
	if below != "" {
		below += "."
	}
	return Login{
		User:         e.Text(below+"user", l.User),
		Password:     e.Text(below+"password", l.Password),
		PasswordFile: e.Text(below+"passwordFile", l.PasswordFile),
	}
}

// TLS are the fields of tls.
func (e *Expander) TLS(t TLS) TLS {
	return TLS{
		CAFile:   e.Text("tls.caFile", t.CAFile),
		CertFile: e.Text("tls.certFile", t.CertFile),
		KeyFile:  e.Text("tls.keyFile", t.KeyFile),
	}
}

// Add says what else is wrong. Nil errors are nothing.
func (e *Expander) Add(errs ...error) {
	for _, err := range errs {
		if err != nil {
			e.errs = append(e.errs, err)
		}
	}
}

// Err is all that is wrong, in one line; nil: nothing is.
func (e *Expander) Err() error { return Join(e.errs) }

// Join is all errors in one line; nil where there are none.
func Join(errs []error) error {
	var all error
	for _, err := range errs {
		if all == nil {
			all = err
		} else {
			all = fmt.Errorf("%w; %w", all, err)
		}
	}
	return all
}

// Addresses are single addresses: each text may hold several, with commas between. One that is there twice is given
// once.
func Addresses(texts []string) []string {
	var all []string
	for _, text := range texts {
		for one := range strings.SplitSeq(text, ",") {
			if one = strings.TrimSpace(one); one != "" && !slices.Contains(all, one) {
				all = append(all, one)
			}
		}
	}
	return all
}
