package httptask

import (
	"cmp"
	_ "embed"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/shardctl/shardctl/pkg/tasks"
	"github.com/shardctl/shardctl/pkg/tasks/decode"
)

//go:embed schema.json
var schema string

// Kind reads runners that call endpoints from a configuration.
type Kind struct{}

// Name is "http".
func (Kind) Name() string { return Name }

// Schema is that of the mapping with url, method, headers, body, timeout, tokenFile and tls.
func (Kind) Schema() string { return schema }

// Fields are those of work.
func (Kind) Fields() tasks.Fields { return tasks.FieldsOfWork() }

// Parse reads a Runner.
func (Kind) Parse(n *decode.Node, r *decode.Reader) tasks.Runner {
	r.CheckStart(n, nil)
	return Runner{
		URL:       r.Text(n.Get("url"), ""),
		Method:    r.Text(n.Get("method"), DefaultMethod),
		Headers:   r.Texts(n.Get("headers")),
		Body:      r.Text(n.Get("body"), ""),
		Timeout:   r.Positive(n.Get("timeout"), 0, ""),
		TokenFile: r.Text(n.Get("tokenFile"), ""),
		CAFile:    r.Text(n.At("tls", "caFile"), ""),
	}
}

var token = regexp.MustCompile("^[A-Za-z0-9!#$%&'*+.^_`|~-]+$") // of RFC 9110: a method, the name of a header

// Validate checks the URL, the method, the headers and the time-out.
func (r Runner) Validate(use tasks.Use) []decode.FieldError {
	var wrong []decode.FieldError
	variable := func(text string) bool { return strings.Contains(text, "$(") }
	switch path := []string{"url"}; {
	case r.URL == "":
		wrong = append(wrong, decode.FieldError{Path: path, Message: "is required"})
	case !variable(r.URL) && !isWebURL(r.URL):
		// Not quoted: it may hold a password.
		wrong = append(wrong, decode.FieldError{
			Path: path, Message: "is not a URL to call, must be http://HOST… or https://HOST…",
		})
	}
	if r.Method != "" && !variable(r.Method) && !token.MatchString(r.Method) {
		wrong = append(wrong, decode.FieldError{Path: []string{"method"}, Must: "a method such as GET, POST or PUT"})
	}
	if !use.Ticks && 3*r.Timeout >= use.Lease && r.Timeout > 0 {
		// An endpoint that holds the task is asked every third of the lease, so it has to answer within that.
		must := "less than a third of lease.duration " + decode.Short(use.Lease)
		wrong = append(wrong, decode.FieldError{Path: []string{"timeout"}, Must: must})
	}
	return append(wrong, r.validateHeaders()...)
}

// isWebURL says whether text is a URL with a host, and a port that there is.
func isWebURL(text string) bool {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" {
		return false
	}
	port, err := strconv.ParseUint(cmp.Or(u.Port(), "80"), 10, 16)
	return err == nil && port > 0
}

func (r Runner) validateHeaders() []decode.FieldError {
	var wrong []decode.FieldError
	for _, name := range slices.Sorted(maps.Keys(r.Headers)) {
		path, lower := []string{"headers", name}, strings.ToLower(name)
		switch {
		case !token.MatchString(name):
			wrong = append(wrong, decode.WrongName(path, "is not the name of a header"))
		case strings.HasPrefix(lower, "shardctl-") || lower == "idempotency-key":
			wrong = append(wrong, decode.WrongName(path, "is set by shardctl for every request: choose another name"))
		case lower == "authorization" && r.TokenFile != "":
			wrong = append(wrong, decode.WrongName(
				path, "is set together with tokenFile, which sets it: use one of them",
			))
		}
		if strings.ContainsAny(r.Headers[name], "\r\n\x00") {
			wrong = append(wrong, decode.FieldError{Path: path, Message: "holds more than one line, a header has one"})
		}
	}
	return wrong
}

// Print shows the fields as they are written.
func (r Runner) Print(use tasks.Use) any {
	timeout := r.sessionTimeout(use.Lease)
	if use.Ticks {
		timeout = cmp.Or(r.Timeout, DefaultTimeout)
	}
	fields := decode.Pairs(
		"url", decode.WithoutPasswords(r.URL),
		"method", cmp.Or(r.Method, DefaultMethod),
		"headers", decode.Map(decode.WithoutPasswordsIn(r.Headers)),
		"body", decode.TextOrNil(decode.WithoutPasswords(r.Body)),
		"timeout", timeout,
		"tokenFile", decode.TextOrNil(r.TokenFile),
	)
	if r.CAFile != "" {
		fields = append(fields, decode.Pairs("tls", decode.Pairs("caFile", r.CAFile))...)
	}
	return fields
}
