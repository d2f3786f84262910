// Package httptask is the kind of task that calls an HTTP endpoint.
//
// At a tick it sends one request. Without ticks it lets the endpoint know, with start, renew and stop, what it owns and
// for how long. The key is handed over only after the endpoint has acknowledged the stop, or the time that it was given
// is over.
package httptask

import (
	"cmp"
	"context"
	"errors"
	"reflect"
	"time"

	"github.com/shardctl/shardctl/internal/decode"
	"github.com/shardctl/shardctl/internal/endpoint"
	"github.com/shardctl/shardctl/internal/field"
	"github.com/shardctl/shardctl/internal/kind"
	"github.com/shardctl/shardctl/internal/taskrun"
	"github.com/shardctl/shardctl/pkg/tasks"
)

// Name is the field of a task that chooses this kind.
const Name = endpoint.Name

// What fields are when left out.
const (
	// DefaultTimeout is that of one request. An endpoint that holds a task between requests gets a quarter of the lease
	// instead where that is less. It has to answer within a third.
	DefaultTimeout = 10 * time.Second
)

// Runner calls an endpoint. Fields are as written: $(NAME) in them is replaced at each request.
type Runner struct {
	endpoint.Endpoint
	Body string
	JSON map[string]string // instead of Body: an object of texts, encoded once their variables are replaced
	// Timeout is that of one request; 0: the default. Where the endpoint holds the task, one of a third of the lease
	// or more counts as 0.
	Timeout time.Duration
}

// Kind is "http".
func (r Runner) Kind() string { return Name }

// NeedsRestart says whether the requests differ in anything.
func (r Runner) NeedsRestart(old tasks.Runner) bool { return !reflect.DeepEqual(old, tasks.Runner(r)) }

// Run sends the request of a tick, or holds the task with the endpoint for as long as ctx goes on.
func (r Runner) Run(ctx context.Context, env taskrun.Env) tasks.Ending {
	if env.Start.ScheduledAt.IsZero() {
		return session{r, env}.run(ctx)
	}
	return r.tick(ctx, env)
}

// tick is a single request. What was sent cannot be called back: for that there is the token.
func (r Runner) tick(ctx context.Context, env taskrun.Env) tasks.Ending {
	env.Status.Running()
	idem := string(env.Lease.Key()) + "@" + env.Start.Tick()
	ctx, cancel := context.WithTimeoutCause(ctx, cmp.Or(r.Timeout, DefaultTimeout), errRequestTimeout)
	defer cancel()
	if err := r.send(ctx, env, message{event: eventTick, start: env.Start, idem: idem}); err != nil {
		cause := context.Cause(ctx)
		return tasks.Ending{Err: err, Code: 1, ByItself: true, Cut: cause != nil && !errors.Is(cause,
			errRequestTimeout)}
	}
	return tasks.Ending{ByItself: true}
}

// sessionTimeout is the longest that one request to an endpoint that holds the task may take, under leases of
// duration t. The lease is the running one: a configuration that was read again may name another.
func (r Runner) sessionTimeout(t time.Duration) time.Duration {
	if r.Timeout > 0 && 3*r.Timeout < t {
		return r.Timeout
	}
	return min(DefaultTimeout, t/4)
}

// Kind reads runners that call endpoints from a configuration.
type Kind struct{}

// Name is "http".
func (Kind) Name() string { return Name }

// Schema is that of the mapping with url, method, headers, body, json, timeout, tokenFile and tls.
func (Kind) Schema() string { return new(Runner).fields().Schema("Calls a URL.") }

// Fields are those of work.
func (Kind) Fields() kind.Fields { return kind.FieldsOfWork() }

// Parse reads a Runner.
func (Kind) Parse(n *decode.Node, r *decode.Reader) kind.Runner {
	var run Runner
	run.fields().Parse(n, r)
	if n.Get("timeout") == nil {
		run.Timeout = 0 // it depends on the lease
	}
	return run
}

// fields are what a configuration says of a runner that calls an endpoint.
func (r *Runner) fields() field.List {
	return r.Fields(
		field.Field{Name: "body", Value: field.Text{To: &r.Body}},
		field.Field{
			Name: "json", Value: field.Map{To: &r.JSON},
			Doc: "Instead of `body`: a JSON object of these texts, encoded once their variables are replaced.",
		},
		field.Field{
			Name: "timeout", Value: field.Duration{To: &r.Timeout, Default: DefaultTimeout},
			Doc: "Of one request. Without ticks it must be less than a third of lease.duration, and is by default the lesser " +
				"of 10s and a quarter of it.",
		},
	)
}

// Validate checks the URL, the method, the headers and the time-out.
func (r Runner) Validate(use kind.Use) []decode.FieldError {
	wrong := append(r.fields().Check(), r.Endpoint.Validate()...)
	if r.Body != "" && len(r.JSON) > 0 {
		wrong = append(wrong, decode.FieldError{
			Path: []string{"json"}, Message: "goes without body: a request has one of them",
		})
	}
	if !use.Ticks && 3*r.Timeout >= use.Lease && r.Timeout > 0 {
		// An endpoint that holds the task is asked every third of the lease, so it has to answer within that.
		must := "less than a third of lease.duration " + decode.Short(use.Lease)
		wrong = append(wrong, decode.FieldError{Path: []string{"timeout"}, Must: must})
	}
	return wrong
}

// Print shows the fields as they are written.
func (r Runner) Print(use kind.Use) any {
	if r.Timeout = cmp.Or(r.Timeout, DefaultTimeout); !use.Ticks {
		r.Timeout = r.sessionTimeout(use.Lease)
	}
	return r.fields().Print()
}
