package taskrun

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/go-logr/logr"

	"github.com/shardctl/shardctl/internal/variables"
	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/tasks"
)

// Env is what one run of a task is given. A runner may hand on parts of it, but keeps nothing of it after Run returns.
type Env struct {
	tasks.Identity // of the task
	Host

	Start     tasks.Start
	Grace     time.Duration // what a run has to end in after it is asked to stop, while the lease holds: stop.timeout
	Lease     tasks.Lease   // the hold on the key, and the value kept with it
	Advance   tasks.Advance // gives this run a new token
	Remote    *RemoteLease  // what an endpoint elsewhere was promised under this hold
	Processes Processes
	Status    Status
	Trace     TraceContext // to pass on; empty without tracing
	Log       logr.Logger
	// Delivery begins the span of a delivery of this run, for [Env.BeginDelivery]; nil: deliveries are not followed.
	Delivery func(ctx context.Context, position string, messages int) (context.Context, DeliverySpan)
}

// Host is what all runs on one replica share.
type Host struct {
	Instance  string        // the replica's name
	T         time.Duration // the duration of the leases that tasks are held under
	HTTP      HTTP
	Callbacks *tasks.Registry
	Environ   func() []string // NAME=value, what $(NAME) is looked up in
	Withheld  []string        // names in Environ that commands do not get, unless a task's own env sets them
	// Assign runs a task in the application beside the replica, and returns once nothing of its key runs there. The
	// error is the context's cause, or why the application ended it by itself. Nil: there is no application.
	Assign func(ctx context.Context, env Env) error
}

// HTTP gives clients for requests. Its methods may be called concurrently.
type HTTP interface {
	// Client gives a client that checks servers against the PEM certificates in caFile; empty: the system's.
	// Redirects are not followed.
	Client(caFile string) (*http.Client, error)
	// AcquireSlot waits for one of the slots for simultaneous starts; done gives it back.
	AcquireSlot(ctx context.Context) (done func(), err error)
}

// Status takes what a run says about itself, for people. Calls never block, and cost a write only where something
// has changed.
type Status interface {
	// Running says that what was starting runs now.
	Running()
	// Trouble says that it runs, and what is wrong with it; nil: nothing is any more.
	Trouble(err error)
	// Lag says how far it is behind. It costs a write: say it where it has changed noticeably.
	Lag(lag elect.Lag)
}

// Run is what a callback is given of it.
func (e Env) Run() tasks.Run {
	return tasks.Run{
		Identity: e.Identity, Start: e.Start, Lease: e.Lease, Advance: e.Advance,
		Logger: e.Log.WithValues("token", e.Start.Token),
	}
}

// Own are the task's own variables at this start, by name.
func (e Env) Own() variables.Set {
	of := variables.Values{
		Group: e.Group, Name: e.Name, Key: string(e.Lease.Key()), Index: e.Index,
		Discovered: e.Discovered.Name, Partition: e.Discovered.Partition, Instance: e.Instance, Started: true,
		Session: e.Lease.Session(), Token: e.Start.Token,
	}
	if !e.Start.ScheduledAt.IsZero() {
		of.Tick = e.Start.Tick()
	}
	own := of.Set()
	e.Trace.variables(own)
	return own
}

// Expand replaces the variables in text by the task's own and the replica's. What is wrong names the field. In a URL a
// name that was discovered is escaped, so that it stays one part of it. Where the URL begins with it, it is the URL.
func (e Env) Expand(field, text string) (string, error) {
	if !strings.Contains(text, "$") {
		return text, nil // as in most texts: requests should not cost a look at the environment
	}
	own := e.Own()
	name := own[variables.DiscoveredName]
	if strings.HasSuffix(field, ".url") && name != "" && !strings.HasPrefix(text, "$("+variables.DiscoveredName) {
		own[variables.DiscoveredName] = strings.ReplaceAll(url.QueryEscape(name), "+", "%20")
	}
	value, err := variables.Expand(text, variables.LookupIn(own, variables.Parse(e.Environ())))
	if err != nil {
		return "", fmt.Errorf("%s: %w", field, err)
	}
	return value, nil
}

// BeginDelivery begins the span of a delivery, where deliveries are followed. Else the receiver gets the span of the
// run.
func (e Env) BeginDelivery(ctx context.Context, position string, messages int) (context.Context, DeliverySpan) {
	if e.Delivery == nil {
		return ctx, noDelivery{e.Trace}
	}
	return e.Delivery(ctx, position, messages)
}
