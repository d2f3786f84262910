package httptask

import (
	"cmp"
	_ "embed"

	"github.com/shardctl/shardctl/pkg/tasks"
	"github.com/shardctl/shardctl/pkg/tasks/decode"
	"github.com/shardctl/shardctl/pkg/tasks/internal/endpoint"
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
	to := endpoint.Parse(n, r)
	return Runner{
		URL: to.URL, Method: to.Method, Headers: to.Headers, TokenFile: to.TokenFile, CAFile: to.CAFile,
		Body:    r.Text(n.Get("body"), ""),
		Timeout: r.Positive(n.Get("timeout"), 0, ""),
	}
}

// endpoint is where its requests go.
func (r Runner) endpoint() endpoint.Endpoint {
	return endpoint.Endpoint{
		URL: r.URL, Method: r.Method, Headers: r.Headers, TokenFile: r.TokenFile, CAFile: r.CAFile,
	}
}

// Validate checks the URL, the method, the headers and the time-out.
func (r Runner) Validate(use tasks.Use) []decode.FieldError {
	wrong := r.endpoint().Validate()
	if !use.Ticks && 3*r.Timeout >= use.Lease && r.Timeout > 0 {
		// An endpoint that holds the task is asked every third of the lease, so it has to answer within that.
		must := "less than a third of lease.duration " + decode.Short(use.Lease)
		wrong = append(wrong, decode.FieldError{Path: []string{"timeout"}, Must: must})
	}
	return wrong
}

// Print shows the fields as they are written.
func (r Runner) Print(use tasks.Use) any {
	timeout := r.sessionTimeout(use.Lease)
	if use.Ticks {
		timeout = cmp.Or(r.Timeout, DefaultTimeout)
	}
	return r.endpoint().Print(decode.Pairs(
		"body", decode.TextOrNil(decode.WithoutPasswords(r.Body)),
		"timeout", timeout,
	)...)
}
