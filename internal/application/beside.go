package application

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/shardctl/shardctl/internal/replica"
	"github.com/shardctl/shardctl/internal/supervisor"
	"github.com/shardctl/shardctl/internal/taskrun"
	"github.com/shardctl/shardctl/internal/variables"
	"github.com/shardctl/shardctl/internal/web"
	"github.com/shardctl/shardctl/pkg/api"
)

// beside is the application beside a replica. It implements [replica.Application].
type beside struct {
	address string // where it calls
	hub     *Hub
	handler http.Handler
	process *Process // nil without a command
}

// maxWait bounds how long a call waits for news, also with a long lease.
const maxWait = 10 * time.Second

// Beside makes the application beside a replica: it is for [replica.Config].
func Beside(c replica.ApplicationConfig) replica.Application {
	s := c.Settings
	b := &beside{address: s.App.Listen}
	t := s.Lease.Duration
	most := MaxValidity(t)
	cfg := Config{
		Clock: c.Clock, MaxWait: min(t/10, maxWait), Changed: c.Changed, Load: c.Load,
		// A tenth of the lease is left for seeing that it has stopped, before the replica itself has to end.
		Session: func() (string, time.Duration) {
			session, left := c.Deadline()
			if b.process != nil && b.process.Session() != session {
				return "", 0
			}
			return session, min(left-t/10, most)
		},
	}
	server := &Server{Owner: c.Owner}
	switch {
	case len(s.App.Command) > 0:
		b.process = b.newProcess(c)
		server.Token = b.process.Secret
	case s.App.TokenFile != "":
		server.Token = func() (string, error) { return readToken(s.App.TokenFile) }
	}
	if c.Guard != nil && b.process == nil {
		cfg.Guard = c.Guard
	}
	b.hub = NewHub(cfg)
	server.Hub = b.hub
	b.handler = server.Handler()
	return b
}

func (b *beside) newProcess(c replica.ApplicationConfig) *Process {
	s := c.Settings
	p := &Process{
		Command: s.App.Command, Environ: environWithout(s.Store.Withheld), Instance: s.Instance, Address: b.address,
		Lease: s.Lease.Duration, Deadline: c.Deadline, Gone: func() { b.hub.Ended() },
		Overdue: func() (overdue, lost bool) { return b.hub.Overdue(s.Lease.Duration / 25) },
		Log:     c.Logger,
	}
	if c.Guard != nil {
		p.Starter = c.Guard
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

// Handler implements [replica.Application].
func (b *beside) Handler() http.Handler { return b.handler }

// Assign implements [replica.Application].
func (b *beside) Assign(ctx context.Context, env taskrun.Env) error { return b.hub.Assign(ctx, env) }

// State implements [replica.Application].
func (b *beside) State() replica.ApplicationState {
	known := b.hub.Status()
	s := replica.ApplicationState{
		App: known.App, Refused: known.Refused, Ready: known.Ready, Since: known.Since, LastCall: known.LastCall,
		Reported: known.Reported, Stopping: known.Stopping,
	}
	s.Reason, s.Message = known.NotReady(b.address)
	if b.process == nil {
		return s
	}
	pid, reason, ended := b.process.Status()
	if s.PID = pid; ended != "" && !known.Ready {
		s.Reason, s.Message = reason, ended
	}
	return s
}

// TakesKeys implements [replica.Application].
func (b *beside) TakesKeys() bool { return b.hub.Capacity() }

// TookKeys implements [replica.Application].
func (b *beside) TookKeys() bool { return b.hub.HadCapacity() }

// Run implements [replica.Application].
func (b *beside) Run(ctx context.Context) {
	if b.process != nil {
		b.process.Run(ctx)
	}
}

// Close implements [replica.Application].
func (b *beside) Close() { b.hub.Close() }

// Handler answers the application beside a replica: see [settings.App].
func Handler(r *replica.Replica) http.Handler {
	return web.Handler(func(w http.ResponseWriter, req *http.Request) *web.Error {
		b := r.Application()
		if b == nil {
			return web.Unavailable(api.ReasonStoreUnreachable, "the store has not been reached yet")
		}
		b.Handler().ServeHTTP(w, req)
		return nil
	})
}
