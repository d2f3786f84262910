package listers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/shardctl/shardctl/internal/connect"
	"github.com/shardctl/shardctl/internal/decode"
	"github.com/shardctl/shardctl/internal/discover"
	"github.com/shardctl/shardctl/internal/endpoint"
	"github.com/shardctl/shardctl/internal/field"
)

// amqpName is the field of discover that chooses this lister.
const amqpName = "amqp"

// What fields are when left out.
const (
	DefaultVHost = "/"
	DefaultType  = TypeQueue
)

// What AMQP.Type may be.
const (
	TypeQueue  = "queue" // classic and quorum queues
	TypeStream = "stream"
)

// AMQP asks the management API of RabbitMQ for the queues of one virtual host: AMQP has no way to list them. Texts are
// as written: $(NAME) in them is replaced at each look.
type AMQP struct {
	Management string   // http://HOST:15672
	VHost      string   // empty: /
	Queues     []string // patterns: see [discover.ParsePatterns]
	Type       string   // TypeQueue or TypeStream; empty: TypeQueue
	connect.Login
	Timeout time.Duration // of one request; 0: DefaultTimeout
	CAFile  string        // PEM file of the authorities to trust; empty: the system's

	client client
}

// fields are what a configuration says of a lister.
func (l *AMQP) fields() field.List {
	return field.List{
		{
			Name: "management", Value: field.Text{
				To: &l.Management, Required: "is required: the address of the management plugin, as http://HOST:15672",
				Valid: endpoint.IsWebURL, Message: "is not an address to ask, must be http://HOST:PORT or https://HOST:PORT",
			},
			Doc: "Address of the management plugin, as `http://HOST:15672`.",
		},
		{Name: "vhost", Value: field.Text{To: &l.VHost, Default: DefaultVHost}, Doc: "Virtual host of the queues."},
		{
			Name: "queues", Value: field.Patterns{To: &l.Queues},
			Doc: "Which queues: `*` stands for any text, `?` for one character; or a regular expression between slashes. " +
				"Exclusive ones are left out.",
		},
		{
			Name: "type", Value: field.Text{To: &l.Type, Default: DefaultType, OneOf: []string{TypeQueue, TypeStream}},
			Doc: "`queue`: classic and quorum queues. `stream`: streams.",
		},
		{
			Name: "user", Value: field.Text{To: &l.User},
			Doc: "It needs the tag `management`, and access to the virtual host.",
		},
		connect.Password(&l.Password),
		connect.PasswordFile(&l.PasswordFile),
		{Name: "timeout", Value: field.Duration{To: &l.Timeout, Default: DefaultTimeout}, Doc: "Of one request."},
		{Name: "tls", Value: field.Mapping{Fields: field.List{connect.CAFile(&l.CAFile)}, Off: l.CAFile == ""}},
	}
}

// AMQPKind reads listers from a configuration.
var AMQPKind = field.Kind(amqpName, "Finds the queues of RabbitMQ, by its management API.", (*AMQP).fields,
	func(l *AMQP, _ *decode.Node) discover.Lister { return l })

// Kind is "amqp".
func (*AMQP) Kind() string { return amqpName }

// Validate checks the address, the patterns and the user.
func (l *AMQP) Validate() []decode.FieldError {
	return slices.Concat(l.fields().Check(), endpoint.ValidateCAFile(l.Management, l.CAFile),
		discover.ValidatePatterns("queues", l.Queues), l.Login.Validate(), l.ValidateUser())
}

// Print shows the fields as they are written.
func (l *AMQP) Print() any { return l.fields().Print() }

// List asks for all queues, or streams, of the virtual host. Exclusive ones are left out: only who made them may
// consume them.
func (l *AMQP) List(ctx context.Context, env discover.Env) ([]discover.Found, error) {
	patterns, err := env.Patterns("amqp.queues", l.Queues)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, cmp.Or(l.Timeout, DefaultTimeout), errors.New("no answer in time"))
	defer cancel()
	all := []discover.Found{}
	err = l.ask(ctx, env, func(q queue) (err error) {
		if (q.Type == TypeStream) == (l.Type == TypeStream) && !q.Exclusive && patterns.Match(q.Name) {
			all, err = discover.Append(all, discover.Found{Name: q.Name})
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("%s: ask for the queues: %w", decode.WithoutPasswords(l.Management), err)
	}
	return all, nil
}

// queue is what is read of one.
type queue struct {
	Name      string `json:"name"`
	Type      string `json:"type"` // classic, quorum, stream
	Exclusive bool   `json:"exclusive"`
}

// ask calls each with all queues, one after the other.
func (l *AMQP) ask(ctx context.Context, env discover.Env, each func(queue) error) error {
	request, err := l.request(ctx, env)
	if err != nil {
		return err
	}
	err = l.client.ask(request, env, "amqp.tls.caFile", l.CAFile, func(body io.Reader) error {
		err := readList(body, "queues", func(q queue) error {
			if q.Name == "" {
				return fmt.Errorf("%w of queues: an entry has no name", errNoList)
			}
			return each(q)
		})
		if errors.Is(err, errNoList) {
			return fmt.Errorf("%w: amqp.management must be the address of the management plugin", err)
		}
		return err
	})
	if status := (statusError{}); errors.As(err, &status) {
		return fmt.Errorf("%w%s", err, advice(status.Code))
	}
	return err
}

// advice is what to do about a status.
func advice(status int) string {
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden:
		return ": check amqp.user and its password; the user needs the tag management"
	case http.StatusNotFound:
		return ": there is no such virtual host, or amqp.management is not the address of the management plugin"
	default:
		return ""
	}
}

// request makes the request, with everything expanded now.
func (l *AMQP) request(ctx context.Context, env discover.Env) (*http.Request, error) {
	to := AMQP{Login: l.Login, Management: l.Management, VHost: l.VHost}
	err := to.fields().Expand(amqpName, env.Expand)
	password, noPassword := to.ReadPassword(amqpName)
	if err := field.Join(err, noPassword); err != nil {
		return nil, err
	}
	target := strings.TrimSuffix(to.Management, "/") + "/api/queues/" + url.PathEscape(to.VHost) +
		"?columns=name,type,exclusive"
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, target, http.NoBody)
	if err != nil {
		return nil, fmt.Errorf("amqp.management: %w", withoutURL(ctx, err))
	}
	if to.User != "" {
		request.SetBasicAuth(to.User, password)
	}
	return request, nil
}
