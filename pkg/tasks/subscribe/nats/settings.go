package nats

import (
	"cmp"
	"fmt"
	"strings"

	natsio "github.com/nats-io/nats.go"

	"github.com/shardctl/shardctl/pkg/tasks/decode"
	"github.com/shardctl/shardctl/pkg/tasks/internal/access"
	"github.com/shardctl/shardctl/pkg/tasks/subscribe"
)

// cluster is where the servers are and who asks them, with variables replaced.
type cluster struct {
	servers []string
	login   Login
	tls     TLS
}

func newCluster(e *access.Expander, servers []string, l Login, tls TLS) cluster {
	basic := e.Login("", l.basic())
	return cluster{
		servers: access.Addresses(e.Texts("servers", servers)),
		login: Login{
			CredsFile: e.Text("credsFile", l.CredsFile), NKeyFile: e.Text("nkeyFile", l.NKeyFile),
			TokenFile: e.Text("tokenFile", l.TokenFile),
			User:      basic.User, Password: basic.Password, PasswordFile: basic.PasswordFile,
		},
		tls: e.TLS(tls),
	}
}

// settings are a source's fields with variables replaced.
type settings struct {
	cluster

	stream, subject, consumer, start string
	missing                          string
}

func (s Source) settings(session subscribe.Session) (settings, error) {
	e := access.NewExpander(Name, session.Expand)
	set := settings{
		cluster:  newCluster(e, s.Servers, s.Login, s.TLS),
		stream:   e.Text("stream", s.Stream),
		subject:  e.Text("subject", s.Subject),
		consumer: cmp.Or(e.Text("consumer", s.Consumer), consumerName(session.Group, session.Name)),
		start:    cmp.Or(e.Text("start", s.Start), DefaultStart),
		missing:  cmp.Or(s.Missing, DefaultMissing),
	}
	if e.Err() == nil {
		e.Add(set.check(s)...)
	}
	return set, e.Err()
}

// check says what is wrong with the servers that variables brought in, without quoting them.
func (c cluster) check(written []string) error {
	if len(c.servers) > 0 && allOf(c.servers, isServer) {
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
	if err := set.cluster.check(s.Servers); err != nil {
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
func (c cluster) options() ([]natsio.Option, error) {
	var opts []natsio.Option
	if c.tls != (TLS{}) {
		config, err := c.tls.Config(Name)
		if err != nil {
			return nil, err
		}
		opts = append(opts, natsio.Secure(config))
	}
	login, err := c.login.option()
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
	case l.User == "" && l.PasswordFile == "":
		return nil, nil
	}
	password, err := l.basic().ReadPassword(Name)
	if err != nil {
		return nil, err
	}
	return natsio.UserInfo(l.User, password), nil
}
