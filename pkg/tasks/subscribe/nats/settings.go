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

// settings are a source's fields with variables replaced.
type settings struct {
	servers                          []string
	stream, subject, consumer, start string
	missing                          string
	login                            Login
	tls                              TLS
}

func (s Source) settings(session subscribe.Session) (settings, error) {
	set := settings{missing: cmp.Or(s.Missing, DefaultMissing)}
	var errs []error
	expand := func(field, text string) string {
		value, err := session.Expand(Name+"."+field, text)
		if err != nil {
			errs = append(errs, err)
		}
		return value
	}
	for i, server := range s.Servers {
		set.servers = append(set.servers, expand(fmt.Sprintf("servers[%d]", i), server))
	}
	set.servers = addresses(set.servers)
	set.stream, set.subject = expand("stream", s.Stream), expand("subject", s.Subject)
	set.consumer = cmp.Or(expand("consumer", s.Consumer), consumerName(session.Group, session.Name))
	set.start = cmp.Or(expand("start", s.Start), DefaultStart)
	set.login = Login{
		CredsFile: expand("credsFile", s.Login.CredsFile), NKeyFile: expand("nkeyFile", s.Login.NKeyFile),
		TokenFile: expand("tokenFile", s.Login.TokenFile), User: expand("user", s.Login.User),
		Password: expand("password", s.Login.Password), PasswordFile: expand("passwordFile", s.Login.PasswordFile),
	}
	set.tls = TLS{
		CAFile: expand("tls.caFile", s.TLS.CAFile), CertFile: expand("tls.certFile", s.TLS.CertFile),
		KeyFile: expand("tls.keyFile", s.TLS.KeyFile),
	}
	if len(errs) == 0 {
		errs = set.check(s)
	}
	return set, errors.Join(errs...)
}

// check says what is wrong with what variables brought in, without quoting it.
func (set settings) check(s Source) []error {
	var errs []error
	say := func(field, written, words string) {
		errs = append(errs, fmt.Errorf("nats.%s: what %s holds is not %s", field, shown(written), words))
	}
	if len(set.servers) == 0 || !allOf(set.servers, isServer) {
		say("servers", strings.Join(s.Servers, ","), "the address of a server: HOST:PORT or nats://HOST:PORT")
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
func (set settings) options() ([]natsio.Option, error) {
	var opts []natsio.Option
	if set.tls.CAFile != "" {
		opts = append(opts, natsio.RootCAs(set.tls.CAFile))
	}
	if set.tls.CertFile != "" {
		opts = append(opts, natsio.ClientCert(set.tls.CertFile, set.tls.KeyFile))
	}
	login, err := set.login.option()
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
