package tasks

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-logr/logr"

	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/tasks/decode"
)

// Env is what one run of a task is given. A runner may hand on parts of it, but keeps nothing of it after Run returns.
type Env struct {
	Task     Task
	Start    Start
	Instance string        // this replica's name
	T        time.Duration // the duration of the leases that tasks are held under
	Lease    Lease         // the hold on the key, and the value kept with it
	Remote   *RemoteLease  // what an endpoint elsewhere was promised under this hold

	Processes Processes
	HTTP      HTTP
	Callbacks *Registry
	Environ   func() []string // NAME=value, what $(NAME) is looked up in
	Status    Status
	Metrics   Metrics
	Log       logr.Logger
}

// Lease is what a run may ask about its hold on the key. Its methods may be called concurrently.
type Lease interface {
	Key() elect.Key
	Session() string
	// Valid says whether work may go on now.
	Valid() bool
	// Deadline is the moment, on the local clock and ever later while the lease is renewed, at which the work must
	// have ended.
	Deadline() time.Time
	// Save stores a value with the key, for its next holder: a checkpoint. A holder with a larger token has the last
	// word.
	Save(ctx context.Context, value []byte) error
	// Load returns what was saved last, and the token it was saved under; nil and 0 when nothing was.
	Load(ctx context.Context) (value []byte, token int64, err error)
}

// Processes starts commands, each as a process group of its own.
type Processes interface {
	// Start starts a command, of which only Args, Env, Dir and Stdin are looked at: its outputs go to the task's
	// log. It waits for its turn when many commands are starting. On an error nothing of the command is left. End
	// must be called in the end.
	Start(ctx context.Context, c Command) (Child, error)
}

// Child is a command that a run has started.
type Child interface {
	// Exited is closed when the command itself has ended.
	Exited() <-chan struct{}
	// End stops what is left of the command, in the way and time that the task's stop says, and returns when nothing
	// of it is left. Once ctx ends because the lease is lost, that is in time for the lease's deadline.
	End(ctx context.Context) Ending
}

// HTTP gives clients for requests. Its methods may be called concurrently.
type HTTP interface {
	// Client gives a client that checks servers against the PEM certificates in caFile; empty: the system's.
	// Redirects are not followed.
	Client(caFile string) (*http.Client, error)
	// Turn waits for one of the places for simultaneous starts; done gives it back.
	Turn(ctx context.Context) (done func(), err error)
}

// Status takes what a run says about itself, for people. Calls never block, and cost a write only where something
// has changed.
type Status interface {
	// Running says that what was starting runs now.
	Running()
	// Trouble says that it runs, and what is wrong with it.
	Trouble(err error)
}

// Own are the task's own variables at this start, by name.
func (e Env) Own() Variables {
	own := Variables{
		"SHARDCTL_TASK":          e.Task.Name,
		"SHARDCTL_GROUP":         e.Task.Group,
		"SHARDCTL_KEY":           string(e.Lease.Key()),
		"SHARDCTL_FENCING_TOKEN": strconv.FormatInt(e.Start.Token, 10),
		"SHARDCTL_INSTANCE":      e.Instance,
		"SHARDCTL_SESSION":       e.Lease.Session(),
	}
	if e.Task.Index != "" {
		own["SHARDCTL_INDEX"] = e.Task.Index
	}
	if !e.Start.ScheduledAt.IsZero() {
		own["SHARDCTL_SCHEDULED_AT"] = e.Start.Tick()
	}
	return own
}

// Expand replaces the variables in text by the task's own and the replica's. What is wrong names the field.
func (e Env) Expand(field, text string) (string, error) {
	value, err := decode.Expand(text, LookupIn(e.Own(), ParseEnviron(e.Environ())))
	if err != nil {
		return "", fmt.Errorf("%s: %w", field, err)
	}
	return value, nil
}

// Tick is ScheduledAt as commands and endpoints see it: RFC 3339, in UTC so that it is the same on every replica.
func (s Start) Tick() string { return s.ScheduledAt.UTC().Format(time.RFC3339Nano) }

// Variables are an environment by name.
type Variables map[string]string

// ParseEnviron reads NAME=value lines, as of [os.Environ]. Later ones win.
func ParseEnviron(environ []string) Variables {
	env := make(Variables, len(environ))
	for _, entry := range environ {
		if name, value, ok := strings.Cut(entry, "="); ok && name != "" {
			env[name] = value
		}
	}
	return env
}

// List is NAME=value in order of names, so that equal environments look equal.
func (v Variables) List() []string {
	list := make([]string, 0, len(v))
	for _, name := range slices.Sorted(maps.Keys(v)) {
		list = append(list, name+"="+v[name])
	}
	return list
}

// LookupIn finds a variable in the first environment that has it.
func LookupIn(envs ...Variables) func(name string) (string, bool) {
	return func(name string) (string, bool) {
		for _, env := range envs {
			if value, ok := env[name]; ok {
				return value, true
			}
		}
		return "", false
	}
}
