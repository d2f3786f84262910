// Package listers has the listers that need no client of a broker: an address, a file, a Go function and RabbitMQ's
// management API.
package listers

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/shardctl/shardctl/pkg/tasks"
	"github.com/shardctl/shardctl/pkg/tasks/decode"
	"github.com/shardctl/shardctl/pkg/tasks/discover"
	"github.com/shardctl/shardctl/pkg/tasks/internal/endpoint"
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
// empty: field says where it is written, and variables in it are replaced.
func (c *client) body(request *http.Request, env discover.Env, field, caFile string) ([]byte, error) {
	file, err := env.Expand(field, caFile)
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

//go:embed http.json
var httpSchema string

// HTTPKind reads listers that ask an address from a configuration.
type HTTPKind struct{}

// Name is "http".
func (HTTPKind) Name() string { return "http" }

// Schema is that of the mapping with url, headers, timeout, tokenFile and tls.
func (HTTPKind) Schema() string { return httpSchema }

// Parse reads a HTTP.
func (HTTPKind) Parse(n *decode.Node, r *decode.Reader) discover.Lister {
	r.CheckStart(n, nil)
	return &HTTP{
		URL:       r.Text(n.Get("url"), ""),
		Headers:   r.Texts(n.Get("headers")),
		Timeout:   r.Positive(n.Get("timeout"), DefaultTimeout, ""),
		TokenFile: r.Text(n.Get("tokenFile"), ""),
		CAFile:    r.Text(n.At("tls", "caFile"), ""),
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
	var wrong []decode.FieldError
	switch path := []string{"url"}; {
	case l.URL == "":
		wrong = append(wrong, decode.FieldError{Path: path, Message: "is required"})
	case !decode.HasVariables(l.URL) && !endpoint.IsWebURL(l.URL):
		// Not quoted: it may hold a password.
		wrong = append(wrong, decode.FieldError{
			Path: path, Message: "is not a URL to ask, must be http://HOST… or https://HOST…",
		})
	}
	wrong = append(wrong, endpoint.ValidateCAFile(l.URL, l.CAFile)...)
	return append(wrong, l.endpoint().ValidateHeaders(nil)...)
}

// Print shows the fields as they are written.
func (l *HTTP) Print() any {
	fields := decode.Pairs(
		"url", decode.WithoutPasswords(l.URL),
		"headers", decode.Map(decode.WithoutPasswordsIn(l.Headers)),
		"timeout", cmp.Or(l.Timeout, DefaultTimeout),
		"tokenFile", decode.TextOrNil(l.TokenFile),
	)
	if l.CAFile != "" {
		fields = append(fields, decode.Pairs("tls", decode.Pairs("caFile", l.CAFile))...)
	}
	return fields
}

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
