// Package endpoint is what kinds that call HTTP endpoints have in common: the fields of the field http, and what every
// request says of its task.
package endpoint

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/shardctl/shardctl/internal/connect"
	"github.com/shardctl/shardctl/internal/decode"
	"github.com/shardctl/shardctl/internal/field"
	"github.com/shardctl/shardctl/internal/taskrun"
	"github.com/shardctl/shardctl/internal/variables"
)

// Name is the field that an endpoint is configured under.
const Name = "http"

// DefaultMethod is the method where none is given.
const DefaultMethod = "POST"

// Endpoint is where requests go. Fields are as written: $(NAME) in them is replaced at each request.
type Endpoint struct {
	URL       string
	Method    string // empty: POST
	Headers   map[string]string
	TokenFile string // its content is sent as a bearer token, read again at each request
	CAFile    string
}

// usualHeaders is the capacity for those that are set besides, so that the map need not grow with each request.
const usualHeaders = 24

// Expander replaces the variables of a field.
type Expander interface {
	Expand(field, text string) (string, error)
}

// Request makes a request with everything expanded now. What is wrong names the field.
func (e Endpoint) Request(ctx context.Context, env Expander, body []byte) (*http.Request, error) {
	target, err := env.Expand("http.url", e.URL)
	if err != nil {
		return nil, err
	}
	request, err := http.NewRequestWithContext(ctx, cmp.Or(e.Method, DefaultMethod), target, bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("http.url: %w", WithoutURL(err))
	}
	request.Header = make(http.Header, len(e.Headers)+usualHeaders)
	for name, value := range e.Headers {
		if value, err = env.Expand("http.headers."+name, value); err != nil {
			return nil, err
		}
		if request.Header.Set(name, value); strings.EqualFold(name, "Host") {
			request.Host = value
		}
	}
	return request, e.authorize(request, env)
}

// authorize sets the bearer token, read again each time since it may be replaced.
func (e Endpoint) authorize(request *http.Request, env Expander) error {
	path, err := env.Expand("http.tokenFile", e.TokenFile)
	if err != nil || path == "" {
		return err
	}
	token, err := variables.ReadFile(path)
	if err != nil {
		return fmt.Errorf("http.tokenFile: %w", err)
	}
	request.Header.Set("Authorization", "Bearer "+strings.TrimSpace(token))
	return nil
}

// Client is the one to send requests with.
func (e Endpoint) Client(env taskrun.Env) (*http.Client, error) {
	caFile, err := env.Expand("http.tls.caFile", e.CAFile)
	if err != nil {
		return nil, err
	}
	return env.HTTP.Client(caFile)
}

// Describe sets what the endpoint needs to know of the task. Nothing that the configured headers say wins over it.
func Describe(header http.Header, env taskrun.Env, event string) {
	maps.Copy(header, Described(env, event))
}

// Described is what Describe sets. It is the same for all requests of a start.
func Described(env taskrun.Env, event string) http.Header {
	header := http.Header{
		"Shardctl-Task":          {env.Name},
		"Shardctl-Group":         {env.Group},
		"Shardctl-Key":           {string(env.Lease.Key())},
		"Shardctl-Fencing-Token": {strconv.FormatInt(env.Start.Token, 10)},
		"Shardctl-Instance":      {env.Instance},
		"Shardctl-Event":         {event},
	}
	SetTrace(header, env.Trace)
	return header
}

// SetTrace sets what names a span, in place of what names another.
func SetTrace(header http.Header, trace taskrun.TraceContext) {
	if trace.Parent != "" {
		header["Traceparent"] = []string{trace.Parent}
		header["Tracestate"] = nil // of another trace: it is not sent
	}
	if trace.State != "" {
		header["Tracestate"] = []string{trace.State}
	}
}

// WithoutURL is an HTTP client's error less the URL, in which there may be what a variable brought in.
func WithoutURL(err error) error {
	if e := (*url.Error)(nil); errors.As(err, &e) {
		return e.Err
	}
	return err
}

// Fields are url, method, headers, more, tokenFile and tls.
func (e *Endpoint) Fields(more ...field.Field) field.List {
	return slices.Concat(field.List{
		{Name: "url", Value: field.Text{
			To: &e.URL, Required: "is required", Valid: IsWebURL,
			Message: "is not a URL to call, must be http://HOST… or https://HOST…", // it may hold a password
		}, Doc: "`http://…` or `https://…`."},
		{Name: "method", Value: field.Text{
			To: &e.Method, Default: DefaultMethod, Valid: token.MatchString, Must: "a method such as GET, POST or PUT",
		}},
		{Name: "headers", Value: field.Map{To: &e.Headers}},
	}, more, field.List{
		{
			Name: "tokenFile", Value: field.Text{To: &e.TokenFile},
			Doc: "Its content is sent as a bearer token, read again at each request.",
		},
		{Name: "tls", Value: field.Mapping{Fields: field.List{connect.CAFile(&e.CAFile)}, Off: e.CAFile == ""}},
	})
}

var token = regexp.MustCompile("^[A-Za-z0-9!#$%&'*+.^_`|~-]+$") // of RFC 9110: a method, the name of a header

// Validate checks what Fields do not: that caFile goes with the URL, and the headers. Besides those that all requests
// have, ours are the names, in lower case, of headers that are set for every request. One that ends with a hyphen
// stands for all that begin so.
func (e Endpoint) Validate(ours ...string) []decode.FieldError {
	return append(ValidateCAFile(e.URL, e.CAFile),
		e.ValidateHeaders(append([]string{"shardctl-", "idempotency-key"}, ours...))...)
}

// ValidateCAFile refuses authorities where nothing is asked over TLS. Redirects are not followed.
func ValidateCAFile(url, caFile string) []decode.FieldError {
	if caFile == "" || !strings.HasPrefix(strings.ToLower(url), "http://") {
		return nil
	}
	return []decode.FieldError{{
		Path: []string{"tls", "caFile"}, Message: "goes with https:// only: over http:// no certificate is looked at",
	}}
}

// IsWebURL says whether text is a URL with a host, and a port that there is.
func IsWebURL(text string) bool {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" {
		return false
	}
	port, err := strconv.ParseUint(cmp.Or(u.Port(), "80"), 10, 16)
	return err == nil && port > 0
}

// ValidateHeaders checks the headers. Ours are as those of Validate.
func (e Endpoint) ValidateHeaders(ours []string) []decode.FieldError {
	var wrong []decode.FieldError
	for _, name := range slices.Sorted(maps.Keys(e.Headers)) {
		path, lower := []string{"headers", name}, strings.ToLower(name)
		set := func(own string) bool {
			return lower == own || strings.HasSuffix(own, "-") && strings.HasPrefix(lower, own)
		}
		switch {
		case !token.MatchString(name):
			wrong = append(wrong, decode.WrongName(path, "is not the name of a header"))
		case slices.ContainsFunc(ours, set):
			wrong = append(wrong, decode.WrongName(path, "is set by shardctl for every request: choose another name"))
		case lower == "authorization" && e.TokenFile != "":
			wrong = append(wrong, decode.WrongName(
				path, "is set together with tokenFile, which sets it: use one of them",
			))
		}
		if strings.ContainsAny(e.Headers[name], "\r\n\x00") {
			wrong = append(wrong, decode.FieldError{Path: path, Message: "holds more than one line, a header has one"})
		}
	}
	return wrong
}
