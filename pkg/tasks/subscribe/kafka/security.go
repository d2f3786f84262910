package kafka

import (
	"crypto/tls"
	"slices"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"github.com/shardctl/shardctl/pkg/tasks/decode"
	"github.com/shardctl/shardctl/pkg/tasks/internal/access"
)

// SASL is who the subscription is to the brokers. The zero value is no one in particular.
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
	l := access.ParseLogin(n, r)
	return SASL{r.Text(n.Get("mechanism"), ""), l.User, l.Password, l.PasswordFile}
}

func parseTLS(n *decode.Node, r *decode.Reader) TLS {
	files := access.ParseTLS(n, r)
	t := TLS{files != access.TLS{}, files.CAFile, files.CertFile, files.KeyFile}
	if enabled := n.Get("enabled"); enabled != nil {
		t.Enabled = r.Truth(enabled)
	}
	return t
}

func (s SASL) login() access.Login {
	return access.Login{User: s.User, Password: s.Password, PasswordFile: s.PasswordFile}
}

func (t TLS) files() access.TLS {
	return access.TLS{CAFile: t.CAFile, CertFile: t.CertFile, KeyFile: t.KeyFile}
}

func (s SASL) validate() []decode.FieldError {
	if s == (SASL{}) {
		return nil
	}
	var wrong []decode.FieldError
	required := func(field, words string) {
		wrong = append(wrong, decode.FieldError{Path: []string{field}, Message: words})
	}
	if s.Mechanism == "" {
		required("mechanism", "is required")
	}
	if s.User == "" {
		required("user", "is required")
	}
	if s.Password == "" && s.PasswordFile == "" {
		required("password", "is required, or passwordFile")
	}
	return decode.Within("sasl", slices.Concat(wrong,
		oneOf("mechanism", s.Mechanism, "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"), s.login().ValidatePassword()))
}

// printSecurity are the fields sasl and tls, where they are set.
func printSecurity(s SASL, t TLS) decode.Fields {
	var fields decode.Fields
	if s != (SASL{}) {
		fields = decode.Pairs("sasl", append(decode.Pairs("mechanism", s.Mechanism), s.login().Print()...))
	}
	if t != (TLS{}) {
		fields = append(fields,
			decode.Pairs("tls", append(decode.Pairs("enabled", t.Enabled), t.files().PrintFiles()...))...)
	}
	return fields
}

// secure are the options of a client that say how it connects. The files are read now. What is wrong is added to e.
func secure(e *access.Expander, s SASL, t TLS) []kgo.Opt {
	var opts []kgo.Opt
	if config := t.config(e); config != nil {
		opts = append(opts, kgo.DialTLSConfig(config))
	}
	if mechanism := s.mechanism(e); mechanism != nil {
		opts = append(opts, kgo.SASL(mechanism))
	}
	return opts
}

// mechanism is nil where there is none.
func (s SASL) mechanism(e *access.Expander) sasl.Mechanism {
	if s == (SASL{}) {
		return nil
	}
	login := e.Login("sasl", s.login())
	password, err := login.ReadPassword(Name + ".sasl")
	e.Add(err)
	switch s.Mechanism {
	case "SCRAM-SHA-256":
		return scram.Auth{User: login.User, Pass: password}.AsSha256Mechanism()
	case "SCRAM-SHA-512":
		return scram.Auth{User: login.User, Pass: password}.AsSha512Mechanism()
	default:
		return plain.Auth{User: login.User, Pass: password}.AsMechanism()
	}
}

// config is nil where TLS is off.
func (t TLS) config(e *access.Expander) *tls.Config {
	if !t.Enabled {
		return nil
	}
	config, err := e.TLS(t.files()).Config(Name)
	e.Add(err)
	return config
}
