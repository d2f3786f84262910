package tasks

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"

	"github.com/shardctl/shardctl/internal/variables"
	"github.com/shardctl/shardctl/pkg/elect"
)

// Start is one start of a task's work.
type Start struct {
	// Token is the fencing token of this start: larger than that of every start of the task before it, anywhere.
	Token int64
	// Attempt counts from 1: tries of one tick, or starts of a task without ticks since the replica owns it.
	Attempt int
	// ScheduledAt is the tick that this start is for; zero for a task without ticks.
	ScheduledAt time.Time
}

// Tick is ScheduledAt as commands and endpoints see it: RFC 3339, in UTC so that it is the same on every replica.
func (s Start) Tick() string { return s.ScheduledAt.UTC().Format(time.RFC3339Nano) }

// Env is what one run of a task is given. A runner may hand on parts of it, but keeps nothing of it after Run returns.
type Env struct {
	Identity // of the task
	Host

	Start     Start
	Grace     time.Duration // what a run has to end in after it is asked to stop, while the lease holds: stop.timeout
	Lease     Lease         // the hold on the key, and the value kept with it
	Advance   Advance       // gives this run a new token
	Remote    *RemoteLease  // what an endpoint elsewhere was promised under this hold
	Processes Processes
	Status    Status
	Trace     TraceContext // to pass on; empty without tracing
	Log       logr.Logger
	// Delivery begins the span of a delivery of this run, as [Tracer.BeginDelivery]; nil: deliveries are not followed.
	Delivery func(ctx context.Context, position string, messages int) (context.Context, DeliverySpan)
}

// Host is what all runs on one replica share.
type Host struct {
	Instance  string        // the replica's name
	T         time.Duration // the duration of the leases that tasks are held under
	HTTP      HTTP
	Callbacks *Registry
	Environ   func() []string // NAME=value, what $(NAME) is looked up in
	Withheld  []string        // names in Environ that commands do not get, unless a task's own env sets them
	// Application runs tasks with assign; nil: there is none.
	Application Application
}

// Advance gives a run that goes on a new, larger token. What the lease's Checkpoint does from then on is under it, and
// what it has under way fails once that has read or set the value. With an error the run keeps the token that it had.
// Errors: [elect.ErrLeaseLost], [elect.ErrReleased], or the context's cause.
type Advance func(ctx context.Context) (token int64, err error)

// Application is a process beside the replica that runs keys, in any language.
type Application interface {
	// Run has it run a key until ctx ends, and returns once nothing of the key runs there. running is called when the
	// application first says that it runs it. The error is the context's cause, or why it ended by itself.
	Run(ctx context.Context, a Assignment, running func()) error
}

// Assignment is one start of a task, for an application to run.
type Assignment struct {
	Key     elect.Key
	Session string // that holds the key
	Token   int64
	Grace   time.Duration    // what the application has to stop in
	Value   elect.Checkpoint // what is kept with the key
}

// Processes starts commands, each as a process group of its own.
type Processes interface {
	// Start starts a command, of which only Args, Environ, Dir, Stdin and Answers are looked at. What it writes goes to
	// the task's log, less its answers. It waits for its turn when many commands are starting. On an error nothing of
	// the command is left. End must be called in the end.
	Start(ctx context.Context, c Command) (Child, error)
}

// Child is a command that a run has started.
type Child interface {
	// Exited is closed when the command itself has ended.
	Exited() <-chan struct{}
	// End stops what is left of the command, in the way and time that the task's stop says. It returns when nothing of
	// it is left. Once ctx ends because the lease is lost, that is in time for the lease's deadline. Once it ends with
	// a cause that wraps ErrNoTime, SIGKILL comes at once.
	End(ctx context.Context) Ending
}

// ErrNoTime is the cause of a context by which [Child.End] learns that the task has no time left to stop in.
var ErrNoTime = errors.New("no time is left to stop in")

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
func (e Env) Run() Run {
	return Run{
		Identity: e.Identity, Start: e.Start, Lease: e.Lease, Advance: e.Advance,
		Logger: e.Log.WithValues("token", e.Start.Token),
	}
}

// Own are the task's own variables at this start, by name.
func (e Env) Own() variables.Set {
	own := variables.Set{
		variables.Task:         e.Name,
		variables.Group:        e.Group,
		variables.Key:          string(e.Lease.Key()),
		variables.FencingToken: strconv.FormatInt(e.Start.Token, 10),
		variables.Instance:     e.Instance,
		variables.Session:      e.Lease.Session(),
	}
	if e.Index != "" {
		own[variables.Index] = e.Index
	}
	if e.Discovered.Name != "" {
		own[variables.DiscoveredName], own[variables.DiscoveredPartition] = e.Discovered.Name, e.Discovered.Partition
	}
	if !e.Start.ScheduledAt.IsZero() {
		own[variables.ScheduledAt] = e.Start.Tick()
	}
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

// Callback is a task's work as a Go function. ctx ends, with a cause, when the work has to stop. The callback must then
// return soon, since its key is not handed over while it runs (see [Alarms.OnStuck]). Returning nil is success, an
// error or a panic is failure; what follows is the task's restart policy or, at a tick, its retries.
type Callback func(ctx context.Context, run Run) error

// Run is one start of a callback.
type Run struct {
	Identity // of the task
	// Start has the token: whatever the callback writes to should refuse smaller ones than it has seen.
	Start
	// Lease says how long the work may go on; a long step may ask it before it begins.
	Lease Lease
	// Advance gives the run a new token, which is not in Start.
	Advance Advance
	Logger  logr.Logger
}

// Registry holds callbacks by name. Its zero value is empty and ready; its methods may be called concurrently.
type Registry struct {
	mu        sync.RWMutex
	callbacks map[string]Callback
}

// Register adds a callback. It fails when the name is empty or taken, or the callback is nil.
func (r *Registry) Register(name string, callback Callback) error {
	if name == "" {
		return errors.New("register callback: its name is empty")
	}
	if callback == nil {
		return fmt.Errorf("register callback %q: it is nil", name)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, taken := r.callbacks[name]; taken {
		return fmt.Errorf("register callback %q: the name is taken", name)
	}
	if r.callbacks == nil {
		r.callbacks = map[string]Callback{}
	}
	r.callbacks[name] = callback
	return nil
}

// Lookup returns the callback of that name.
func (r *Registry) Lookup(name string) (Callback, bool) {
	if r == nil {
		return nil, false
	}
	r.mu.RLock()
	defer r.mu.RUnlock()
	callback, ok := r.callbacks[name]
	return callback, ok
}

// Names lists the registered names in order.
func (r *Registry) Names() []string {
	if r == nil {
		return nil
	}
	r.mu.RLock()
	defer r.mu.RUnlock()
	return slices.Sorted(maps.Keys(r.callbacks))
}
