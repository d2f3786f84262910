package listers

import (
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/shardctl/shardctl/pkg/tasks/decode"
	"github.com/shardctl/shardctl/pkg/tasks/discover"
	"github.com/shardctl/shardctl/pkg/tasks/internal/access"
	"github.com/shardctl/shardctl/pkg/tasks/internal/endpoint"
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

//go:embed amqp.json
var amqpSchema string

// AMQPKind reads listers from a configuration.
type AMQPKind struct{}

// Name is "amqp".
func (AMQPKind) Name() string { return amqpName }

// Schema is that of the mapping with management, queues and so on.
func (AMQPKind) Schema() string { return amqpSchema }

// Parse reads a AMQP.
func (AMQPKind) Parse(n *decode.Node, r *decode.Reader) discover.Lister {
	r.CheckStart(n, nil)
	login := access.ParseLogin(n, r)
	return &AMQP{
		Management:   r.Text(n.Get("management"), ""),
		VHost:        r.Text(n.Get("vhost"), DefaultVHost),
		Queues:       r.TextOrList(n.Get("queues")),
		Type:         r.Text(n.Get("type"), DefaultType),
		User:         login.User,
		Password:     login.Password,
		PasswordFile: login.PasswordFile,
		Timeout:      r.Positive(n.Get("timeout"), DefaultTimeout, ""),
		CAFile:       r.Text(n.At("tls", "caFile"), ""),
	}
}

// AMQP asks the management API of RabbitMQ for the queues of one virtual host: AMQP has no way to list them. Texts are
// as written: $(NAME) in them is replaced at each look.
type AMQP struct {
	Management   string   // http://HOST:15672
	VHost        string   // empty: /
	Queues       []string // patterns: see [discover.ParsePatterns]
	Type         string   // TypeQueue or TypeStream; empty: TypeQueue
	User         string
	Password     string
	PasswordFile string        // instead of Password
	Timeout      time.Duration // of one request; 0: DefaultTimeout
	CAFile       string        // PEM file of the authorities to trust; empty: the system's

	client client
}

// Kind is "amqp".
func (*AMQP) Kind() string { return amqpName }

// Validate checks the address, the patterns and the user.
func (l *AMQP) Validate() []decode.FieldError {
	var wrong []decode.FieldError
	say := func(message string, path ...string) {
		wrong = append(wrong, decode.FieldError{Path: path, Message: message})
	}
	switch {
	case l.Management == "":
		say("is required: the address of the management plugin, as http://HOST:15672", "management")
	case !decode.HasVariables(l.Management) && !endpoint.IsWebURL(l.Management):
		// Not quoted: it may hold a password.
		say("is not an address to ask, must be http://HOST:PORT or https://HOST:PORT", "management")
	}
	wrong = append(wrong, endpoint.ValidateCAFile(l.Management, l.CAFile)...)
	wrong = append(wrong, discover.ValidatePatterns("queues", l.Queues)...)
	if !slices.Contains([]string{"", TypeQueue, TypeStream}, l.Type) {
		wrong = append(wrong, decode.FieldError{Path: []string{"type"}, Must: TypeQueue + " or " + TypeStream})
	}
	return slices.Concat(wrong, l.login().Validate(), l.login().ValidateUser())
}

func (l *AMQP) login() access.Login {
	return access.Login{User: l.User, Password: l.Password, PasswordFile: l.PasswordFile}
}

// Print shows the fields as they are written.
func (l *AMQP) Print() any {
	fields := slices.Concat(
		decode.Pairs(
			"management", decode.WithoutPasswords(l.Management), "vhost", cmp.Or(l.VHost, DefaultVHost),
			"queues", l.Queues, "type", cmp.Or(l.Type, DefaultType),
		),
		l.login().Print(),
		decode.Pairs("timeout", cmp.Or(l.Timeout, DefaultTimeout)),
	)
	if l.CAFile != "" {
		fields = append(fields, decode.Pairs("tls", decode.Pairs("caFile", l.CAFile))...)
	}
	return fields
}

// List asks for all queues, or streams, of the virtual host. Exclusive ones are left out: only who made them may
// consume them.
func (l *AMQP) List(ctx context.Context, env discover.Env) ([]discover.Found, error) {
	patterns, err := env.Patterns("amqp.queues", l.Queues)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, cmp.Or(l.Timeout, DefaultTimeout), errors.New("no answer in time"))
	defer cancel()
	queues, err := l.ask(ctx, env)
	if err != nil {
		return nil, fmt.Errorf("%s: ask for the queues: %w", decode.WithoutPasswords(l.Management), err)
	}
	all := []discover.Found{}
	for _, q := range queues {
		if (q.Type == TypeStream) == (l.Type == TypeStream) && !q.Exclusive && patterns.Match(q.Name) {
			all = append(all, discover.Found{Name: q.Name})
		}
	}
	return all, nil
}

// queue is what is read of one.
type queue struct {
	Name      string `json:"name"`
	Type      string `json:"type"` // classic, quorum, stream
	Exclusive bool   `json:"exclusive"`
}

func (l *AMQP) ask(ctx context.Context, env discover.Env) ([]queue, error) {
	request, err := l.request(ctx, env)
	if err != nil {
		return nil, err
	}
	content, err := l.client.body(request, env, "amqp.tls.caFile", l.CAFile)
	if status := (statusError{}); errors.As(err, &status) {
		return nil, fmt.Errorf("%w%s", err, advice(status.Code))
	}
	if err != nil {
		return nil, err
	}
	var queues []queue
	if err := json.Unmarshal(content, &queues); err != nil || queues == nil {
		return nil, errors.New("the answer is no list of queues: amqp.management must be the address of the " +
			"management plugin")
	}
	return queues, nil
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
	e := access.NewExpander(amqpName, env.Expand)
	base, vhost := e.Text("management", l.Management), e.Text("vhost", cmp.Or(l.VHost, DefaultVHost))
	login := e.Login("", l.login())
	password, err := login.ReadPassword(amqpName)
	if e.Add(err); e.Err() != nil {
		return nil, e.Err()
	}
	target := strings.TrimSuffix(base, "/") + "/api/queues/" + url.PathEscape(vhost) + "?columns=name,type,exclusive"
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, target, http.NoBody)
	if err != nil {
		return nil, fmt.Errorf("amqp.management: %w", withoutURL(ctx, err))
	}
	if login.User != "" {
		request.SetBasicAuth(login.User, password)
	}
	return request, nil
}
