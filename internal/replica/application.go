package replica

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/shardctl/shardctl/internal/application"
	"github.com/shardctl/shardctl/internal/cluster"
	"github.com/shardctl/shardctl/internal/record"
	"github.com/shardctl/shardctl/internal/settings"
	"github.com/shardctl/shardctl/internal/supervisor"
	"github.com/shardctl/shardctl/internal/variables"
	"github.com/shardctl/shardctl/pkg/api"
	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/tasks"
)

// beside is the application beside a replica. Use newBeside.
type beside struct {
	hub     *application.Hub
	handler http.Handler
	process *application.Process // nil without a command
	changed signal               // it takes keys now, or does no longer

	settings  *settingsInForce
	publisher *publisher
	note      func(record.Event)
}

// maxWait bounds how long a call waits for news, also with a long lease.
const maxWait = 10 * time.Second

// newBeside makes what serves the application; nil where none is configured. What the application reports as the load
// of a key, which is a number, goes to setLoad.
func newBeside(
	cfg *Config, in *settingsInForce, elector *elect.Elector, p *publisher, setLoad func(elect.Key, float64) error,
) *beside {
	s := in.get()
	if s.App.Listen == "" {
		return nil
	}
	b := &beside{settings: in, publisher: p, note: elector.Cluster().Note}
	t, deadline := s.Lease.Duration, elector.SessionDeadline
	most := application.MaxValidity(t)
	hub := application.Config{
		Clock: cfg.Clock, MaxWait: min(t/10, maxWait), Changed: b.changed.wake,
		Load: func(key elect.Key, load float64) { _ = setLoad(key, load) },
		// A tenth of the lease is left for seeing that it has stopped, before the replica itself has to end.
		Session: func() (string, time.Duration) {
			session, left := deadline()
			if b.process != nil && b.process.Session() != session {
				return "", 0
			}
			return session, min(left-t/10, most)
		},
	}
	if hub.Clock == nil {
		hub.Clock = elect.SystemClock()
	}
	server := &application.Server{Owner: ownerIn(elector.Cluster())}
	switch {
	case len(s.App.Command) > 0:
		b.process = b.newProcess(cfg, s, deadline)
		server.Token = b.process.Secret
	case s.App.TokenFile != "":
		server.Token = func() (string, error) { return readToken(s.App.TokenFile) }
	}
	if cfg.Guard != nil && b.process == nil {
		hub.Guard = cfg.Guard
	}
	b.hub = application.NewHub(hub)
	server.Hub = b.hub
	b.handler = server.Handler()
	return b
}

func (b *beside) newProcess(
	cfg *Config, s *settings.Settings, deadline func() (session string, left time.Duration),
) *application.Process {
	p := &application.Process{
		Command: s.App.Command, Environ: environWithout(s.Store.Withheld), Instance: s.Instance, Address: s.App.Listen,
		Lease: s.Lease.Duration, Deadline: deadline, Gone: func() { b.hub.Ended() },
		Overdue: func() (overdue, lost bool) { return b.hub.Overdue(s.Lease.Duration / 25) },
		Log:     cfg.Logger.WithName("application"),
	}
	if cfg.Guard != nil {
		p.Starter = cfg.Guard
	} else {
		p.Starter = supervisor.NewLocalStarter() // what it started ends with this process
	}
	return p
}

// readToken refuses an empty file: any request would bear it.
func readToken(file string) (string, error) {
	text, err := os.ReadFile(file) //nolint:gosec // the file is the operator's choice
	token := strings.TrimSpace(string(text))
	if err == nil && token == "" {
		err = fmt.Errorf("%s is empty, must hold a token", file)
	}
	return token, err
}

// environWithout is what the command of an application gets of this process's environment.
func environWithout(withheld []string) func() []string {
	return func() []string {
		return slices.DeleteFunc(os.Environ(), func(entry string) bool {
			name, _, _ := strings.Cut(entry, "=")
			return variables.Withheld(name, withheld...)
		})
	}
}

// ownerIn finds the owner of a key in the newest view.
func ownerIn(c elect.Cluster) func(elect.Key) (cluster.Owner, bool) {
	return func(key elect.Key) (cluster.Owner, bool) { return c.View().Owner(key) }
}

// applicationState is how the application is at a moment.
type applicationState struct {
	known           application.Status
	pid             int    // of the command; 0: it does not run, or there is none
	reason, message string // why it is given no keys; empty: it is given some
}

// state is how the application is now, that calls at an address.
func (b *beside) state(listen string) applicationState {
	s := applicationState{known: b.hub.Status()}
	s.reason, s.message = s.known.NotReady(listen)
	if b.process == nil {
		return s
	}
	pid, reason, ended := b.process.Status()
	if s.pid = pid; ended != "" && !s.known.Ready {
		s.reason, s.message = reason, ended
	}
	return s
}

// calls says whether there is an application that is given keys.
func (s *applicationState) calls() bool { return s.known.App != "" && s.reason == "" }

// lacksLease says whether there is an application that only the lease of the replica keeps from being given keys.
func (s *applicationState) lacksLease() bool {
	return s.known.App != "" && s.reason == application.ReasonLeaseLost
}

// who names the application to people.
func (s *applicationState) who() string {
	if s.pid != 0 {
		return fmt.Sprintf("pid %d", s.pid)
	}
	return s.known.App
}

// status is what is known of the application, and when it called last; nil where none is configured.
func (b *beside) status(listen string) (a *record.Application, lastCall time.Time) {
	if b == nil {
		return nil, time.Time{}
	}
	state := b.state(listen)
	s := state.known
	a = &record.Application{
		ID: s.App, PID: state.pid, Ready: s.Ready, Message: clip(state.message), Status: s.Reported,
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
		b.hub.Close()
	}
}

// takesKeys says whether an application is there and ready.
func (b *beside) takesKeys() bool { return b != nil && b.hub.Capacity() }

// tend keeps the capacity and the problem that follow from whether there is an application, and its command, and notes
// when one comes and goes, until ctx ends.
func (b *beside) tend(ctx context.Context) {
	if b == nil {
		return
	}
	if b.process != nil {
		done := make(chan struct{})
		go func() { defer close(done); b.process.Run(ctx) }()
		defer func() { <-done }()
	}
	for journal := (applicationJournal{instance: b.settings.get().Instance}); ; {
		changed := b.changed.wait()
		s := b.settings.get()
		is := b.state(s.App.Listen)
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
	if len(groups) == 0 || b.hub.HadCapacity() || bounded && time.Since(started) >= longestUnready {
		return nil
	}
	return fmt.Errorf("no application has taken keys of %s since the start: %s", strings.Join(groups, ", "),
		clip(b.state(s.App.Listen).message))
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
