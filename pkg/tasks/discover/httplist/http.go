// Package httplist is the lister that asks an HTTP address.
package httplist

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/shardctl/shardctl/pkg/tasks/decode"
	"github.com/shardctl/shardctl/pkg/tasks/discover"
	"github.com/shardctl/shardctl/pkg/tasks/discover/internal/webget"
	"github.com/shardctl/shardctl/pkg/tasks/internal/endpoint"
)

// Name is the field of discover that chooses this lister.
const Name = "http"

// DefaultTimeout is that of one request.
const DefaultTimeout = 10 * time.Second

//go:embed schema.json
var schema string

// Kind reads listers that ask an address from a configuration.
type Kind struct{}

// Name is "http".
func (Kind) Name() string { return Name }

// Schema is that of the mapping with url, headers, timeout, tokenFile and tls.
func (Kind) Schema() string { return schema }

// Parse reads a Lister.
func (Kind) Parse(n *decode.Node, r *decode.Reader) discover.Lister {
	r.CheckStart(n, nil)
	return &Lister{
		URL:       r.Text(n.Get("url"), ""),
		Headers:   r.Texts(n.Get("headers")),
		Timeout:   r.Positive(n.Get("timeout"), DefaultTimeout, ""),
		TokenFile: r.Text(n.Get("tokenFile"), ""),
		CAFile:    r.Text(n.At("tls", "caFile"), ""),
	}
}

// Lister sends a GET at each look. The answer is a JSON list of names, or of objects with name, partition, labels and
// weight. Fields are as written: $(NAME) in them is replaced at each look.
type Lister struct {
	URL       string
	Headers   map[string]string
	Timeout   time.Duration // of one request; 0: DefaultTimeout
	TokenFile string        // its content is sent as a bearer token, read again at each look
	CAFile    string        // PEM file of the authorities to trust; empty: the system's

	client webget.Client
}

// Kind is "http".
func (*Lister) Kind() string { return Name }

func (l *Lister) endpoint() endpoint.Endpoint {
	return endpoint.Endpoint{URL: l.URL, Method: http.MethodGet, Headers: l.Headers, TokenFile: l.TokenFile}
}

// Validate checks the URL and the headers.
func (l *Lister) Validate() []decode.FieldError {
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
func (l *Lister) Print() any {
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
func (l *Lister) List(ctx context.Context, env discover.Env) ([]discover.Found, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, cmp.Or(l.Timeout, DefaultTimeout), errors.New("no answer in time"))
	defer cancel()
	found, err := l.list(ctx, env)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", decode.WithoutPasswords(l.URL), err)
	}
	return found, nil
}

func (l *Lister) list(ctx context.Context, env discover.Env) ([]discover.Found, error) {
	request, err := l.endpoint().Request(ctx, env, nil)
	if err != nil {
		return nil, err
	}
	if request.Header.Get("Accept") == "" {
		request.Header.Set("Accept", "application/json")
	}
	content, err := l.client.Body(request, env, "http.tls.caFile", l.CAFile)
	if err != nil {
		return nil, err
	}
	found, err := discover.ParseJSON(content)
	if err != nil {
		return nil, fmt.Errorf("the answer %w", err)
	}
	return found, nil
}
