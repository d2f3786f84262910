// Package listers has the listers that need no client of a broker: an address, a file, a Go function and RabbitMQ's
// management API.
package listers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"time"

	"github.com/shardctl/shardctl/pkg/tasks"
	"github.com/shardctl/shardctl/pkg/tasks/decode"
	"github.com/shardctl/shardctl/pkg/tasks/discover"
	"github.com/shardctl/shardctl/pkg/tasks/internal/access"
	"github.com/shardctl/shardctl/pkg/tasks/internal/endpoint"
	"github.com/shardctl/shardctl/pkg/tasks/internal/field"
)

// statusError is an answer with another status than 200.
type statusError struct {
	Code int
	Text string // as "503 Service Unavailable"
}

// Error implements error.
func (s statusError) Error() string { return fmt.Sprintf("status %s, want 200", s.Text) }

// client asks over HTTP. The zero value is ready to use; it may be used concurrently.
type client struct{ kept tasks.Clients }

// body sends the request once and reads the body of the answer, at most [discover.MaxSize] bytes. A status other than
// 200 is a [statusError]. No error holds the URL. The authorities of caFile are trusted, or the system's where that is
// empty: at says where it is written, and variables in it are replaced.
func (c *client) body(request *http.Request, env discover.Env, at, caFile string) ([]byte, error) {
	file, err := env.Expand(at, caFile)
	if err != nil {
		return nil, err
	}
	client, err := c.kept.Client(file)
	if err != nil {
		return nil, err
	}
	return get(client, request)
}

func get(client *http.Client, request *http.Request) ([]byte, error) {
	response, err := client.Do(request)
	if err != nil {
		return nil, withoutURL(request.Context(), err)
	}
	defer func() { _ = response.Body.Close() }() // the answer is read
	if response.StatusCode != http.StatusOK {
		return nil, statusError{response.StatusCode, response.Status}
	}
	content, err := io.ReadAll(io.LimitReader(response.Body, discover.MaxSize+1))
	if err != nil {
		return nil, withoutURL(request.Context(), err)
	}
	if len(content) > discover.MaxSize {
		return nil, fmt.Errorf("the answer is larger than %d MiB, the most that is read", discover.MaxSize>>20)
	}
	return content, nil
}

// withoutURL is an error of a request less the URL, in which there may be what a variable brought in. Where ctx has
// ended it is the reason for that.
func withoutURL(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return endpoint.WithoutURL(err)
}

// DefaultTimeout is that of one request.
const DefaultTimeout = 10 * time.Second

// HTTPKind reads listers that ask an address from a configuration.
type HTTPKind struct{}

// Name is "http".
func (HTTPKind) Name() string { return "http" }

// Schema is that of the mapping with url, headers, timeout, tokenFile and tls.
func (HTTPKind) Schema() string {
	return new(HTTP).fields().Schema("Asks an address with GET. " +
		"The answer is a JSON list of names, or of objects with name, partition, labels, weight.")
}

// Parse reads a HTTP.
func (HTTPKind) Parse(n *decode.Node, r *decode.Reader) discover.Lister {
	l := new(HTTP)
	l.fields().Parse(n, r)
	return l
}

// fields are what a configuration says of a lister.
func (l *HTTP) fields() field.List {
	return field.List{
		{Name: "url", Value: field.Text{
			To: &l.URL, Required: "is required", Valid: endpoint.IsWebURL,
			Message: "is not a URL to ask, must be http://HOST… or https://HOST…", // it may hold a password
		}, Doc: "`http://…` or `https://…`."},
		{Name: "headers", Value: field.Map{To: &l.Headers}},
		{Name: "timeout", Value: field.Duration{To: &l.Timeout, Default: DefaultTimeout}, Doc: "Of one request."},
		{
			Name: "tokenFile", Value: field.Text{To: &l.TokenFile},
			Doc: "Its content is sent as a bearer token, read again at each look.",
		},
		{Name: "tls", Value: field.Mapping{Fields: field.List{access.CAFile(&l.CAFile)}, Off: l.CAFile == ""}},
	}
}

// HTTP sends a GET at each look. The answer is a JSON list of names, or of objects with name, partition, labels and
// weight. Fields are as written: $(NAME) in them is replaced at each look.
type HTTP struct {
	URL       string
	Headers   map[string]string
	Timeout   time.Duration // of one request; 0: DefaultTimeout
	TokenFile string        // its content is sent as a bearer token, read again at each look
	CAFile    string        // PEM file of the authorities to trust; empty: the system's

	client client
}

// Kind is "http".
func (*HTTP) Kind() string { return "http" }

func (l *HTTP) endpoint() endpoint.Endpoint {
	return endpoint.Endpoint{URL: l.URL, Method: http.MethodGet, Headers: l.Headers, TokenFile: l.TokenFile}
}

// Validate checks the URL and the headers.
func (l *HTTP) Validate() []decode.FieldError {
	return slices.Concat(l.fields().Check(), endpoint.ValidateCAFile(l.URL, l.CAFile),
		l.endpoint().ValidateHeaders(nil))
}

// Print shows the fields as they are written.
func (l *HTTP) Print() any { return l.fields().Print() }

// List asks the address once.
func (l *HTTP) List(ctx context.Context, env discover.Env) ([]discover.Found, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, cmp.Or(l.Timeout, DefaultTimeout), errors.New("no answer in time"))
	defer cancel()
	found, err := l.list(ctx, env)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", decode.WithoutPasswords(l.URL), err)
	}
	return found, nil
}

func (l *HTTP) list(ctx context.Context, env discover.Env) ([]discover.Found, error) {
	request, err := l.endpoint().Request(ctx, env, nil)
	if err != nil {
		return nil, err
	}
	if request.Header.Get("Accept") == "" {
		request.Header.Set("Accept", "application/json")
	}
	content, err := l.client.body(request, env, "http.tls.caFile", l.CAFile)
	if err != nil {
		return nil, err
	}
	found, err := discover.ParseJSON(content)
	if err != nil {
		return nil, fmt.Errorf("the answer %w", err)
	}
	return found, nil
}
