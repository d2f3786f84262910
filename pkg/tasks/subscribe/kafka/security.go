package kafka

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"

	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"github.com/shardctl/shardctl/pkg/tasks/decode"
)

// SASL is who the subscription is to the brokers. The zero value is nobody in particular.
type SASL struct {
	Mechanism    string // PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512
	User         string
	Password     string
	PasswordFile string // instead of Password
}

// TLS is how connections are secured.
type TLS struct {
	Enabled           bool
	CAFile            string // empty: the system's authorities
	CertFile, KeyFile string // both or neither
}

func parseSASL(n *decode.Node, r *decode.Reader) SASL {
	return SASL{
		Mechanism:    r.Text(n.Get("mechanism"), ""),
		User:         r.Text(n.Get("user"), ""),
		Password:     r.Text(n.Get("password"), ""),
		PasswordFile: r.Text(n.Get("passwordFile"), ""),
	}
}

func parseTLS(n *decode.Node, r *decode.Reader) TLS {
	t := TLS{
		CAFile:   r.Text(n.Get("caFile"), ""),
		CertFile: r.Text(n.Get("certFile"), ""),
		KeyFile:  r.Text(n.Get("keyFile"), ""),
	}
	t.Enabled = t != TLS{}
	if enabled := n.Get("enabled"); enabled != nil {
		t.Enabled = r.Truth(enabled)
	}
	return t
}

func (s SASL) validate() []decode.FieldError {
	if s == (SASL{}) {
		return nil
	}
	var wrong []decode.FieldError
	required := func(field, value string) {
		if value == "" {
			wrong = append(wrong, decode.FieldError{Path: []string{"sasl", field}, Message: "is required"})
		}
	}
	required("mechanism", s.Mechanism)
	required("user", s.User)
	for _, err := range oneOf("mechanism", s.Mechanism, "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512") {
		err.Path = []string{"sasl", "mechanism"}
		wrong = append(wrong, err)
	}
	switch path := []string{"sasl", "password"}; {
	case s.Password == "" && s.PasswordFile == "":
		wrong = append(wrong, decode.FieldError{Path: path, Message: "is required, or passwordFile"})
	case s.Password != "" && s.PasswordFile != "":
		wrong = append(wrong, decode.FieldError{Path: path, Message: "is set together with passwordFile: use one of them"})
	}
	return wrong
}

func (t TLS) validate() []decode.FieldError {
	switch {
	case t.CertFile != "" && t.KeyFile == "":
		return []decode.FieldError{{Path: []string{"tls", "keyFile"}, Message: "is required with certFile"}}
	case t.KeyFile != "" && t.CertFile == "":
		return []decode.FieldError{{Path: []string{"tls", "certFile"}, Message: "is required with keyFile"}}
	}
	return nil
}

func (s SASL) print() decode.Fields {
	password := s.Password
	if password != "" && !variable(password) {
		password = decode.Masked
	}
	return decode.Pairs(
		"mechanism", s.Mechanism, "user", s.User,
		"password", decode.TextOrNil(password), "passwordFile", decode.TextOrNil(s.PasswordFile),
	)
}

func (t TLS) print() decode.Fields {
	return decode.Pairs(
		"enabled", t.Enabled, "caFile", decode.TextOrNil(t.CAFile),
		"certFile", decode.TextOrNil(t.CertFile), "keyFile", decode.TextOrNil(t.KeyFile),
	)
}

// expander replaces the variables of fields, and gathers what is wrong.
type expander struct {
	expand func(field, text string) (string, error)
	errs   []error
}

func (e *expander) text(field, text string) string {
	value, err := e.expand("kafka."+field, text)
	if err != nil {
		e.errs = append(e.errs, err)
	}
	return value
}

func (e *expander) file(field, name string) []byte {
	if name = e.text(field, name); name == "" {
		return nil
	}
	//nolint:gosec // G304: reading the file that the configuration names is what this is for
	content, err := os.ReadFile(name)
	if err != nil {
		e.errs = append(e.errs, fmt.Errorf("kafka.%s: %w", field, err))
	}
	return content
}

// mechanism is nil where there is none.
func (s SASL) mechanism(e *expander) sasl.Mechanism {
	if s == (SASL{}) {
		return nil
	}
	user, password := e.text("sasl.user", s.User), e.text("sasl.password", s.Password)
	if name := e.text("sasl.passwordFile", s.PasswordFile); name != "" {
		var err error
		if password, err = decode.ReadFile(name); err != nil {
			e.errs = append(e.errs, fmt.Errorf("kafka.sasl.passwordFile: %w", err))
		}
	}
	switch s.Mechanism {
	case "SCRAM-SHA-256":
		return scram.Auth{User: user, Pass: password}.AsSha256Mechanism()
	case "SCRAM-SHA-512":
		return scram.Auth{User: user, Pass: password}.AsSha512Mechanism()
	default:
		return plain.Auth{User: user, Pass: password}.AsMechanism()
	}
}

// config is nil where TLS is off.
func (t TLS) config(e *expander) *tls.Config {
	if !t.Enabled {
		return nil
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if t.CAFile != "" {
		config.RootCAs = x509.NewCertPool()
		if pem := e.file("tls.caFile", t.CAFile); len(pem) > 0 && !config.RootCAs.AppendCertsFromPEM(pem) {
			e.errs = append(e.errs, errors.New("kafka.tls.caFile: holds no PEM certificate"))
		}
	}
	if t.CertFile != "" {
		cert, key := e.file("tls.certFile", t.CertFile), e.file("tls.keyFile", t.KeyFile)
		if len(cert) == 0 || len(key) == 0 {
			return config
		}
		pair, err := tls.X509KeyPair(cert, key)
		if err != nil {
			e.errs = append(e.errs, fmt.Errorf("kafka.tls.certFile, keyFile: %w", err))
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config
}
