package tasks

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-logr/logr"

	"github.com/shardctl/shardctl/pkg/tasks/decode"
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

	Start    Start
	Instance string        // this replica's name
	T        time.Duration // the duration of the leases that tasks are held under
	Grace    time.Duration // what a run has to end in after it is asked to stop, while the lease holds: stop.timeout
	Lease    Lease         // the hold on the key, and the value kept with it
	Remote   *RemoteLease  // what an endpoint elsewhere was promised under this hold

	Processes Processes
	HTTP      HTTP
	Callbacks *Registry
	Environ   func() []string // NAME=value, what $(NAME) is looked up in
	Status    Status
	Metrics   Metrics
	Trace     TraceContext // to pass on; empty without tracing
	Log       logr.Logger

	traced     TracedRun
	deliveries DeliveryTracer // nil: they are not followed
}

// Run is what a callback is given of it.
func (e Env) Run() Run {
	return Run{
		Identity: e.Identity, Start: e.Start, Lease: e.Lease, Logger: e.Log.WithValues("token", e.Start.Token),
	}
}

// Own are the task's own variables at this start, by name.
func (e Env) Own() Variables {
	own := Variables{
		"SHARDCTL_TASK":          e.Name,
		"SHARDCTL_GROUP":         e.Group,
		"SHARDCTL_KEY":           string(e.Lease.Key()),
		"SHARDCTL_FENCING_TOKEN": strconv.FormatInt(e.Start.Token, 10),
		"SHARDCTL_INSTANCE":      e.Instance,
		"SHARDCTL_SESSION":       e.Lease.Session(),
	}
	if e.Index != "" {
		own["SHARDCTL_INDEX"] = e.Index
	}
	if e.Discovered.Name != "" {
		own[discoveredName], own["DISCOVERED_PARTITION"] = e.Discovered.Name, e.Discovered.Partition
	}
	if !e.Start.ScheduledAt.IsZero() {
		own["SHARDCTL_SCHEDULED_AT"] = e.Start.Tick()
	}
	e.Trace.variables(own)
	return own
}

// discoveredName is the variable whose value anybody may have chosen who can make what is discovered.
const discoveredName = "DISCOVERED_NAME"

// Expand replaces the variables in text by the task's own and the replica's. What is wrong names the field. In a URL a
// name that was discovered is escaped, so that it stays one part of it. Where the URL begins with it, it is the URL.
func (e Env) Expand(field, text string) (string, error) {
	if !strings.Contains(text, "$") {
		return text, nil // as in most texts: requests should not cost a look at the environment
	}
	own := e.Own()
	if strings.HasSuffix(field, ".url") && own[discoveredName] != "" && !strings.HasPrefix(text, "$("+discoveredName) {
		own[discoveredName] = strings.ReplaceAll(url.QueryEscape(own[discoveredName]), "+", "%20")
	}
	value, err := decode.Expand(text, LookupIn(own, ParseEnviron(e.Environ())))
	if err != nil {
		return "", fmt.Errorf("%s: %w", field, err)
	}
	return value, nil
}

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
