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
	"github.com/shardctl/shardctl/internal/view"
	"github.com/shardctl/shardctl/internal/web"
	"github.com/shardctl/shardctl/pkg/api"
	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/pkg/tasks"
)

// beside is the application beside a replica.
type beside struct {
	hub     *application.Hub
	handler http.Handler
	process *application.Process // nil without a command
	changed signal               // it takes keys now, or does no longer
}

// maxWait bounds how long a call waits for news, also with a long lease.
const maxWait = 10 * time.Second

// clock is what leases are counted by.
func (r *Replica) clock() elect.Clock {
	if r.cfg.Clock == nil {
		return elect.SystemClock()
	}
	return r.cfg.Clock
}

// newBeside makes what serves the application; nil where none is configured.
func (r *Replica) newBeside(s *settings.Settings, n *node) *beside {
	if s.App.Listen == "" {
		return nil
	}
	b := &beside{}
	t, deadline := s.Lease.Duration, n.elector.SessionDeadline
	most := application.MaxValidity(t)
	cfg := application.Config{
		Clock: r.clock(), MaxWait: min(t/10, maxWait), Changed: b.changed.wake,
		Load: func(key elect.Key, load float64) { _ = r.SetLoad(key, load) }, // a number, as the hub sees to
		// A tenth of the lease is left for seeing that it has stopped, before the replica itself has to end.
		Session: func() (string, time.Duration) {
			session, left := deadline()
			if b.process != nil && b.process.Session() != session {
				return "", 0
			}
			return session, min(left-t/10, most)
		},
	}
	server := &application.Server{Owner: ownerIn(n.cluster)}
	switch {
	case len(s.App.Command) > 0:
		b.process = r.newProcess(s, n, b)
		server.Token = b.process.Secret
	case s.App.TokenFile != "":
		server.Token = func() (string, error) { return readToken(s.App.TokenFile) }
	}
	if g := r.cfg.Guard; g != nil && b.process == nil {
		cfg.Guard = g
	}
	b.hub = application.NewHub(cfg)
	server.Hub = b.hub
	b.handler = server.Handler()
	return b
}

func (r *Replica) newProcess(s *settings.Settings, n *node, b *beside) *application.Process {
	p := &application.Process{
		Command: s.App.Command, Environ: environWithout(s.Store.Withheld), Instance: s.Instance, Address: s.App.Listen,
		Lease: s.Lease.Duration, Deadline: n.elector.SessionDeadline, Gone: func() { b.hub.Ended() },
		Overdue: func() (overdue, lost bool) { return b.hub.Overdue(s.Lease.Duration / 25) },
		Log:     r.log.WithName("application"),
	}
	if r.cfg.Guard != nil {
		p.Starter = r.cfg.Guard
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

// Application answers the application beside this replica: see [settings.App].
func (r *Replica) Application() http.Handler {
	return web.Handler(func(w http.ResponseWriter, req *http.Request) *web.Error {
		n := r.node.Load()
		if n == nil || n.beside == nil {
			return web.Unavailable(api.ReasonStoreUnreachable, "the store has not been reached yet")
		}
		n.beside.handler.ServeHTTP(w, req)
		return nil
	})
}

// tendApplication keeps the capacity and the problem that follow from whether there is an application, and its command,
// and notes when one comes and goes.
func (r *Replica) tendApplication(ctx context.Context, n *node) {
	b := n.beside
	if b == nil {
		return
	}
	if b.process != nil {
		done := make(chan struct{})
		go func() { defer close(done); b.process.Run(ctx) }()
		defer func() { <-done }()
	}
	for journal := (applicationJournal{instance: r.Settings().Instance}); ; {
		changed := b.changed.wait()
		s := r.Settings()
		is := b.state(s.App.Listen)
		for _, e := range journal.next(&is) {
			n.cluster.Note(e)
		}
		// A lease that is over is another problem.
		if groups := assigned(s); is.calls() || is.lacksLease() || len(groups) == 0 {
			r.problems.clear(api.ProblemNoApplication)
		} else {
			r.problems.set(noApplication(s, groups))
		}
		r.settings.declare()
		r.publish()
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}

// longestUnready is how long a replica that has tasks of its own, too, is not ready for want of an application.
const longestUnready = 5 * time.Minute

// Ready is nil once an application has taken keys since the start, or none has to: before that a rolling update would
// stop the replica whose keys this one is to take. It says nothing of later ones: without an application the replica's
// capacity is 0.
func (r *Replica) Ready() error {
	n, s := r.node.Load(), r.Settings()
	if n == nil || n.beside == nil {
		return nil
	}
	groups := assigned(s)
	bounded := len(groups) < len(s.Groups)
	if len(groups) == 0 || n.beside.hub.HadCapacity() || bounded && time.Since(r.started) >= longestUnready {
		return nil
	}
	return fmt.Errorf("no application has taken keys of %s since the start: %s", strings.Join(groups, ", "),
		clip(n.beside.state(s.App.Listen).message))
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

// member is what the replica declares. Without an application it takes none of that one's keys.
func (r *Replica) member(s *settings.Settings, lists view.StoreLists) elect.Member {
	m := r.cfg.member(s, lists)
	if n := r.node.Load(); n == nil || !n.beside.takesKeys() {
		for _, group := range assigned(s) {
			m.Caps[group] = 0
		}
	}
	return m
}
