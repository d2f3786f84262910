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

	"github.com/shardctl/shardctl/internal/connect"
	"github.com/shardctl/shardctl/internal/decode"
	"github.com/shardctl/shardctl/internal/discover"
	"github.com/shardctl/shardctl/internal/endpoint"
	"github.com/shardctl/shardctl/internal/field"
	"github.com/shardctl/shardctl/internal/taskrun"
)

// statusError is an answer with another status than 200.
type statusError struct {
	Code int
	Text string // as "503 Service Unavailable"
}

func (s statusError) Error() string { return fmt.Sprintf("status %s, want 200", s.Text) }

// client asks over HTTP. The zero value is ready to use; it may be used concurrently.
type client struct{ kept taskrun.Clients }

// ask sends the request once and calls read with the body of the answer. Its limits are those of lists. A
// status other than 200 is a [statusError]. No error holds the URL. The authorities of caFile are trusted, or the
// system's where that is empty: at says where it is written, and variables in it are replaced.
func (c *client) ask(
	request *http.Request, env discover.Env, at, caFile string, read func(body io.Reader) error,
) error {
	file, err := env.Expand(at, caFile)
	if err != nil {
		return err
	}
	client, err := c.kept.Client(file)
	if err != nil {
		return err
	}
	response, err := client.Do(request)
	if err != nil {
		return withoutURL(request.Context(), err)
	}
	defer func() { _ = response.Body.Close() }() // the answer is read
	if response.StatusCode != http.StatusOK {
		return statusError{response.StatusCode, response.Status}
	}
	if err := read(response.Body); err != nil {
		return withoutURL(request.Context(), fmt.Errorf("the answer %w", err))
	}
	return nil
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
var HTTPKind = field.Kind("http", "Asks an address with GET. "+
	"The answer is a JSON list of names, or of objects with name, partition, labels, weight.", (*HTTP).fields,
	func(l *HTTP, _ *decode.Node) discover.Lister { return l })

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
		{Name: "tls", Value: field.Mapping{Fields: field.List{connect.CAFile(&l.CAFile)}, Off: l.CAFile == ""}},
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
	var found []discover.Found
	err = l.client.ask(request, env, "http.tls.caFile", l.CAFile, func(body io.Reader) (err error) {
		found, err = readJSON(body)
		return err
	})
	return found, err
}
