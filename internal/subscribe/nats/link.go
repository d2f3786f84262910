package nats

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	natsio "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/shardctl/shardctl/internal/connect"
	"github.com/shardctl/shardctl/internal/subscribe"
	"github.com/shardctl/shardctl/internal/variables"
)

// cluster is where the servers are and who asks them, with variables replaced.
type cluster struct {
	servers []string
	login   Login
	tls     connect.TLS
}

func (s Source) cluster() cluster { return cluster{s.Servers, s.Login, s.TLS} }

// expand replaces the variables and fills in defaults.
func (s Source) expand(session subscribe.Session) (Source, error) {
	err := s.fields().Expand(Name, session.Expand)
	s.Consumer = cmp.Or(s.Consumer, consumerName(session.Group, session.Name))
	s.Start, s.Missing = cmp.Or(s.Start, subscribe.Earliest), cmp.Or(s.Missing, subscribe.Stop)
	return s, err
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
	if c.tls != (connect.TLS{}) {
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
		if _, err := variables.ReadFile(l.CredsFile); err != nil {
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
		token, err := variables.ReadFile(l.TokenFile)
		if err != nil {
			return nil, fmt.Errorf("nats.tokenFile: %w", err)
		}
		return natsio.Token(strings.TrimSpace(token)), nil
	case l.User == "" && l.PasswordFile == "":
		return nil, nil
	}
	password, err := l.ReadPassword(Name)
	if err != nil {
		return nil, err
	}
	return natsio.UserInfo(l.User, password), nil
}

const (
	// answerWithin is how long a server may take to answer one request.
	answerWithin = 5 * time.Second
	// pingEvery is how often the server is asked for a sign of life. Two that are not answered end the connection.
	pingEvery = 10 * time.Second
	// flushWithin is how long it may take to hand bytes to the network.
	flushWithin = 2 * time.Second
)

// link is the connection of one subscription. Its methods may be called concurrently.
type link struct {
	*natsio.Conn
	servers string // for people
	topic   string
	session subscribe.Session
}

// dial connects to one of the servers. A connection that breaks is not made again: what was on its way is lost, and
// comes again only after the subscription is opened again.
func dial(ctx context.Context, c cluster, topic string, session subscribe.Session) (*link, error) {
	l := &link{servers: c.hosts(), topic: topic, session: session}
	var err error
	l.Conn, err = c.connect(ctx, string(session.Key()),
		natsio.FlusherTimeout(flushWithin), natsio.PingInterval(pingEvery), natsio.MaxPingsOutstanding(2),
		natsio.PermissionErrOnSubscribe(true), natsio.ErrorHandler(l.problem), natsio.NoCallbacksAfterClientClose(),
	)
	if ctx.Err() != nil && err != nil {
		err = ctx.Err()
	}
	return l, l.explain(err)
}

// hosts are the servers for people, without their logins.
func (c cluster) hosts() string {
	names := make([]string, len(c.servers))
	for i, server := range c.servers {
		names[i] = server[strings.LastIndexByte(server, '@')+1:]
	}
	return strings.Join(names, ",")
}

// dial connects to one of the servers, for what the server shows by this name.
func (c cluster) connect(ctx context.Context, name string, more ...natsio.Option) (*natsio.Conn, error) {
	opts, err := c.options()
	if err != nil {
		return nil, err
	}
	d := &dialer{ctx: ctx}
	defer d.done()
	return natsio.Connect(strings.Join(c.servers, ","), slices.Concat(opts, []natsio.Option{
		natsio.Name("shardctl " + name), natsio.SetCustomDialer(d), natsio.SkipHostLookup(), natsio.NoReconnect(),
		natsio.Timeout(answerWithin),
	}, more)...)
}

// problem is called by the client. Calls return what else is wrong.
func (l *link) problem(_ *natsio.Conn, _ *natsio.Subscription, err error) {
	if !errors.Is(err, natsio.ErrSlowConsumer) && !errors.Is(err, natsio.ErrPermissionViolation) {
		return
	}
	l.session.Log.Error(l.explain(err), "A connection to NATS has a problem")
}

// dialer dials for a connection that is being made. It ends with its context.
type dialer struct {
	ctx  context.Context
	mu   sync.Mutex
	stop []func() bool
}

// Dial implements natsio.CustomDialer.
func (d *dialer) Dial(network, address string) (net.Conn, error) {
	conn, err := (&net.Dialer{Timeout: answerWithin}).DialContext(d.ctx, network, address)
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.stop = append(d.stop, context.AfterFunc(d.ctx, func() { _ = conn.Close() })) // ends what reads from it
	return conn, nil
}

// done keeps the connections when the context ends later.
func (d *dialer) done() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, stop := range d.stop {
		stop()
	}
}

// advice is what to do about errors.
var advice = []struct {
	err  error
	text string
}{
	{natsio.ErrAuthorization, "correct the login: nats.credsFile, nkeyFile, tokenFile, or user and password"},
	{natsio.ErrAuthExpired, "renew what nats.credsFile holds"},
	{natsio.ErrPermissionViolation, "let the user do this"},
	{natsio.ErrSecureConnRequired, "the server wants TLS: write tls:// in nats.servers, or set nats.tls"},
	{natsio.ErrSecureConnWanted, "the server has no TLS: leave nats.tls out"},
	{natsio.ErrNoServers, "none of the servers answers: see whether they work, and correct nats.servers"},
	{natsio.ErrSlowConsumer, "messages came faster than they were worked on, and were dropped"},
	{natsio.ErrMaxPayload, "the server takes no message that is so large, see its max_payload"},
	{jetstream.ErrStreamNotFound, "there is no such stream: create it, or correct nats.stream"},
	{jetstream.ErrJetStreamNotEnabled, "turn JetStream on, or leave nats.stream out"},
	{jetstream.ErrJetStreamNotEnabledForAccount, "turn JetStream on for the account, or leave nats.stream out"},
	{jetstream.ErrMaximumConsumersLimit, "a new owner needs one consumer more for a moment: raise max_consumers"},
	{jetstream.ErrConsumerDeleted, consumerGone},
	{jetstream.ErrConsumerNotFound, consumerGone},
	{jetstream.ErrNoHeartbeat, "the server is silent: see whether it works"},
	{jetstream.ErrNoStreamResponse, "no stream takes this subject: add it to one"},
	{context.DeadlineExceeded, silent},
	{natsio.ErrTimeout, silent},
}

const (
	silent       = "no answer in time: see whether the server works"
	consumerGone = "a newer owner has taken over, or somebody deleted the consumer"
)

// explain says which servers and topic an error is about, and what to do.
func (l *link) explain(err error) error {
	if err == nil {
		return nil
	}
	what := ""
	for _, a := range advice {
		if errors.Is(err, a.err) {
			what = ": " + a.text
			break
		}
	}
	if timeout := net.Error(nil); what == "" && errors.As(err, &timeout) && timeout.Timeout() {
		what = ": " + silent
	}
	return fmt.Errorf("nats %s, %s: %w%s", l.servers, l.topic, err, what)
}

// explainIn is explain, and plainly the end of ctx where that is the reason.
func (l *link) explainIn(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return ctx.Err()
	}
	return l.explain(err)
}

func hash(text string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(text)) // never fails
	return h.Sum64()
}
