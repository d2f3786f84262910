package replica

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"

	"github.com/shardctl/shardctl/internal/cluster"
	"github.com/shardctl/shardctl/internal/record"
	"github.com/shardctl/shardctl/internal/settings"
	"github.com/shardctl/shardctl/internal/taskrun"
	"github.com/shardctl/shardctl/pkg/api"
	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/tasks"
)

// Application is the application beside a replica: a process that runs the tasks with assign. Its methods may be called
// concurrently.
type Application interface {
	// Handler answers what it asks.
	Handler() http.Handler
	// Assign is a run of a task with assign.
	Assign(ctx context.Context, env taskrun.Env) error
	// State returns how it is now.
	State() ApplicationState
	// TakesKeys reports whether it is there and ready.
	TakesKeys() bool
	// TookKeys reports whether TakesKeys has been true since the start.
	TookKeys() bool
	// Run keeps its command running, if it has one, until ctx is done. It returns when nothing of the command is left.
	Run(ctx context.Context)
	// Close ends what began when it was made. No task may run any more.
	Close()
}

// ApplicationConfig is what an Application is made with.
type ApplicationConfig struct {
	Settings *settings.Settings
	Clock    elect.Clock
	Guard    Guard // nil: there is none
	// Deadline returns the replica's session, and the time until its hard deadline.
	Deadline func() (session string, left time.Duration)
	// Owner returns who owns a key; false: it has no owner.
	Owner func(elect.Key) (cluster.Owner, bool)
	// Load takes the load of a key that is assigned.
	Load func(elect.Key, float64)
	// Changed is called when another application is listened to or refused, or there is another reason why it is given
	// no keys, or none any more. It does not block.
	Changed func()
	Logger  logr.Logger
}

// ApplicationState is how the application is at a moment.
type ApplicationState struct {
	App      string // its uuid; empty: there is none
	PID      int    // of its command; 0: that does not run, or there is none
	Ready    bool
	Since    time.Time            // its first call
	LastCall time.Time            // zero: it has not called
	Reported map[string]string    // what it said of itself last
	Stopping map[string]time.Time // the keys that it has to stop, and when their time is over
	Refused  string               // the first other process that called meanwhile; empty: none has
	// Reason and Message say why it is given no keys; empty: it is given some.
	Reason, Message string
}

// ReasonLeaseLost is why an application is given no keys while the lease of the replica is over.
const ReasonLeaseLost = "LeaseLost"

// beside is the application beside a replica. Use newBeside.
type beside struct {
	Application

	changed signal // it takes keys now, or does no longer

	settings  *settingsInForce
	publisher *publisher
	note      func(record.Event)
}

// newBeside makes the application; nil where none is configured. What the application reports as the load of a key,
// which is a number, goes to setLoad.
func newBeside(
	cfg *Config, in *settingsInForce, elector *elect.Elector, p *publisher, setLoad func(elect.Key, float64) error,
) *beside {
	s := in.get()
	if s.App.Listen == "" || cfg.Application == nil {
		return nil
	}
	b := &beside{settings: in, publisher: p, note: elector.Cluster().Note}
	clock := cfg.Clock
	if clock == nil {
		clock = elect.SystemClock()
	}
	b.Application = cfg.Application(ApplicationConfig{
		Settings: s, Clock: clock, Guard: cfg.Guard, Deadline: elector.SessionDeadline,
		Owner: ownerIn(elector.Cluster()), Changed: b.changed.wake,
		Load:   func(key elect.Key, load float64) { _ = setLoad(key, load) },
		Logger: cfg.Logger.WithName("application"),
	})
	return b
}

// ownerIn finds the owner of a key in the newest view.
func ownerIn(c elect.Cluster) func(elect.Key) (cluster.Owner, bool) {
	return func(key elect.Key) (cluster.Owner, bool) { return c.View().Owner(key) }
}

// calls says whether there is an application that is given keys.
func (s *ApplicationState) calls() bool { return s.App != "" && s.Reason == "" }

// lacksLease says whether there is an application that only the lease of the replica keeps from being given keys.
func (s *ApplicationState) lacksLease() bool {
	return s.App != "" && s.Reason == ReasonLeaseLost
}

// who names the application to people.
func (s *ApplicationState) who() string {
	if s.PID != 0 {
		return fmt.Sprintf("pid %d", s.PID)
	}
	return s.App
}

// status is what is known of the application, and when it called last; nil where none is configured.
func (b *beside) status() (a *record.Application, lastCall time.Time) {
	if b == nil {
		return nil, time.Time{}
	}
	s := b.State()
	a = &record.Application{
		ID: s.App, PID: s.PID, Ready: s.Ready, Message: clip(s.Message), Status: s.Reported,
		Stopping: map[string]int64{},
	}
	if s.App != "" {
		a.Since = s.Since.UnixMilli()
	}
	keys := slices.Sorted(maps.Keys(s.Stopping))
	for _, key := range keys[:min(len(keys), maxShared)] {
		a.Stopping[key] = s.Stopping[key].UnixMilli()
	}
	return a, s.LastCall
}

// close ends what newBeside began. No task may run any more.
func (b *beside) close() {
	if b != nil {
		b.Close()
	}
}

// takesKeys says whether an application is there and ready.
func (b *beside) takesKeys() bool { return b != nil && b.TakesKeys() }

// tend keeps the capacity and the problem that follow from whether there is an application, and its command, and notes
// when one comes and goes, until ctx ends.
func (b *beside) tend(ctx context.Context) {
	if b == nil {
		return
	}
	done := make(chan struct{})
	go func() { defer close(done); b.Run(ctx) }()
	defer func() { <-done }()
	for journal := (applicationJournal{instance: b.settings.get().Instance}); ; {
		changed := b.changed.wait()
		s := b.settings.get()
		is := b.State()
		for _, e := range journal.next(&is) {
			b.note(e)
		}
		// A lease that is over is another problem.
		if groups := assigned(s); is.calls() || is.lacksLease() || len(groups) == 0 {
			b.publisher.problems.clear(api.ProblemNoApplication)
		} else {
			b.publisher.problems.set(noApplication(s, groups))
		}
		b.settings.declare()
		b.publisher.publish()
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}

// longestUnready is how long a replica that has tasks of its own, too, is not ready for want of an application.
const longestUnready = 5 * time.Minute

// ready is nil once an application has taken keys since the replica started, or none has to.
func (b *beside) ready(started time.Time) error {
	if b == nil {
		return nil
	}
	s := b.settings.get()
	groups := assigned(s)
	bounded := len(groups) < len(s.Groups)
	if len(groups) == 0 || b.TookKeys() || bounded && time.Since(started) >= longestUnready {
		return nil
	}
	return fmt.Errorf("no application has taken keys of %s since the start: %s", strings.Join(groups, ", "),
		clip(b.State().Message))
}

func noApplication(s *settings.Settings, groups []string) api.Problem {
	return api.Problem{
		Reason: api.ProblemNoApplication, Severity: api.SeverityWarning, Instance: s.Instance,
		Message: clip(fmt.Sprintf("no application calls at %s and is ready: this replica takes no keys of %s",
			s.App.Listen, strings.Join(groups, ", "))),
	}
}

// assigned are the groups all of whose tasks are the application's.
func assigned(s *settings.Settings) (groups []string) {
	for _, g := range s.Groups {
		others := slices.ContainsFunc(g.Tasks, func(t tasks.Task) bool { return t.Kind() != settings.Assign })
		if len(g.Tasks) > 0 && !others {
			groups = append(groups, g.Name)
		}
	}
	return groups
}
