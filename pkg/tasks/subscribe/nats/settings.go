package nats

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	natsio "github.com/nats-io/nats.go"

	"github.com/shardctl/shardctl/pkg/tasks/decode"
	"github.com/shardctl/shardctl/pkg/tasks/subscribe"
)

// access is where the servers are and who asks them, with variables replaced.
type access struct {
	servers []string
	login   Login
	tls     TLS
}

// settings are a source's fields with variables replaced.
type settings struct {
	access

	stream, subject, consumer, start string
	missing                          string
}

func (s Source) settings(session subscribe.Session) (settings, error) {
	e := &expander{expand: session.Expand}
	set := settings{
		access: e.access(s.Servers, s.Login, s.TLS), stream: e.text("stream", s.Stream), subject: e.text("subject", s.Subject),
		consumer: cmp.Or(e.text("consumer", s.Consumer), consumerName(session.Group, session.Name)),
		start:    cmp.Or(e.text("start", s.Start), DefaultStart), missing: cmp.Or(s.Missing, DefaultMissing),
	}
	if len(e.errs) == 0 {
		e.errs = set.check(s)
	}
	return set, errors.Join(e.errs...)
}

// expander replaces variables, and gathers what is wrong.
type expander struct {
	expand func(field, text string) (string, error)
	errs   []error
}

func (e *expander) text(field, text string) string {
	value, err := e.expand(Name+"."+field, text)
	if err != nil {
		e.errs = append(e.errs, err)
	}
	return value
}

func (e *expander) access(servers []string, login Login, tls TLS) access {
	var all []string
	for i, server := range servers {
		all = append(all, e.text(fmt.Sprintf("servers[%d]", i), server))
	}
	return access{
		servers: addresses(all),
		login: Login{
			CredsFile: e.text("credsFile", login.CredsFile), NKeyFile: e.text("nkeyFile", login.NKeyFile),
			TokenFile: e.text("tokenFile", login.TokenFile), User: e.text("user", login.User),
			Password: e.text("password", login.Password), PasswordFile: e.text("passwordFile", login.PasswordFile),
		},
		tls: TLS{
			CAFile: e.text("tls.caFile", tls.CAFile), CertFile: e.text("tls.certFile", tls.CertFile),
			KeyFile: e.text("tls.keyFile", tls.KeyFile),
		},
	}
}

// check says what is wrong with the servers that variables brought in, without quoting them.
func (a access) check(written []string) error {
	if len(a.servers) > 0 && allOf(a.servers, isServer) {
		return nil
	}
	return wrongText("servers", strings.Join(written, ","), "the address of a server: HOST:PORT or nats://HOST:PORT")
}

func wrongText(field, written, words string) error {
	return fmt.Errorf("nats.%s: what %s holds is not %s", field, shown(written), words)
}

// check says what is wrong with what variables brought in, without quoting it.
func (set settings) check(s Source) []error {
	var errs []error
	say := func(field, written, words string) { errs = append(errs, wrongText(field, written, words)) }
	if err := set.access.check(s.Servers); err != nil {
		errs = append(errs, err)
	}
	if s.Stream != "" && !name.MatchString(set.stream) {
		say("stream", s.Stream, "the name of a stream")
	}
	if s.Subject != "" && !isSubject(set.subject) {
		say("subject", s.Subject, "a subject")
	}
	if !name.MatchString(set.consumer) || len(set.consumer) > longestConsumer {
		say("consumer", s.Consumer, "the name of a consumer")
	}
	if !isStart(set.start) {
		say("start", s.Start, "earliest, latest or a time such as 2026-01-31T12:00:00Z")
	}
	return errs
}

// consumerName is shardctl-GROUP-TASK. What a consumer's name may not have becomes _XX, its code. A name that is too
// long is cut, and ends in a number that stands for all of it.
func consumerName(group, task string) string {
	var b strings.Builder
	for _, c := range []byte("shardctl-" + group + "-" + task) {
		if strings.IndexByte(`.*>/\ `, c) >= 0 || c < ' ' {
			fmt.Fprintf(&b, "_%02X", c)
		} else {
			b.WriteByte(c)
		}
	}
	if b.Len() <= longestConsumer {
		return b.String()
	}
	return fmt.Sprintf("%s-%016x", b.String()[:longestConsumer-17], hash(b.String()))
}

// options are those of a connection.
func (a access) options() ([]natsio.Option, error) {
	var opts []natsio.Option
	if a.tls.CAFile != "" {
		opts = append(opts, natsio.RootCAs(a.tls.CAFile))
	}
	if a.tls.CertFile != "" {
		opts = append(opts, natsio.ClientCert(a.tls.CertFile, a.tls.KeyFile))
	}
	login, err := a.login.option()
	if err != nil {
		return nil, err
	}
	if login != nil {
		opts = append(opts, login)
	}
	return opts, nil
}

// option is that of the way that is chosen; nil: none.
func (l Login) option() (natsio.Option, error) {
	switch {
	case l.CredsFile != "":
		if _, err := decode.ReadFile(l.CredsFile); err != nil {
			return nil, fmt.Errorf("nats.credsFile: %w", err)
		}
		return natsio.UserCredentials(l.CredsFile), nil
	case l.NKeyFile != "":
		option, err := natsio.NkeyOptionFromSeed(l.NKeyFile)
		if err != nil {
			return nil, fmt.Errorf("nats.nkeyFile: %w", err)
		}
		return option, nil
	case l.TokenFile != "":
		token, err := decode.ReadFile(l.TokenFile)
		if err != nil {
			return nil, fmt.Errorf("nats.tokenFile: %w", err)
		}
		return natsio.Token(strings.TrimSpace(token)), nil
	case l.PasswordFile != "":
		password, err := decode.ReadFile(l.PasswordFile)
		if err != nil {
			return nil, fmt.Errorf("nats.passwordFile: %w", err)
		}
		return natsio.UserInfo(l.User, password), nil
	case l.User != "":
		return natsio.UserInfo(l.User, l.Password), nil
	default:
		return nil, nil
	}
}
