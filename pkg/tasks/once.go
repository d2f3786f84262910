package tasks

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"
	"sync"

	"github.com/shardctl/shardctl/pkg/elect"
)

// errNoRunner says a task was made without saying what runs.
var errNoRunner = errors.New("the task has no runner")

// errGoexit says a runner ended its goroutine.
var errGoexit = errors.New("the run called runtime.Goexit")

// once runs the work one time and returns when nothing of it is left.
func (r *running) once(ctx context.Context, start Start) Ending {
	task := r.task()
	if task.Runner == nil {
		return NotStarted(ctx, errNoRunner)
	}
	ended, says := make(chan Ending, 1), &reporter{r: r}
	env := r.env(task, start)
	env.Status = says
	go r.call(ctx, env, ended)
	select {
	case end := <-ended:
		return end
	case <-ctx.Done():
	}
	says.stopping()
	alarm := r.watchStuck()
	defer alarm.end()
	return <-ended
}

// call runs the work on a goroutine of its own, so that neither a panic nor Goexit ends anything else.
func (r *running) call(ctx context.Context, env Env, ended chan<- Ending) {
	end := Ended(ctx, errGoexit)
	defer func() {
		if p := recover(); p != nil {
			err := fmt.Errorf("%s panicked: %v", env.Task.Kind(), p)
			r.log.Error(fmt.Errorf("%w\n%s", err, debug.Stack()), "the run panicked", "token", env.Start.Token)
			end = Ended(ctx, err)
		}
		ended <- end
	}()
	end = env.Task.Runner.Run(ctx, env)
}

// leave lets a runner tell others that the task is theirs no more.
func (r *running) leave(ctx context.Context) {
	task := r.task()
	leaver, ok := task.Runner.(Leaver)
	if !ok {
		return
	}
	if !r.remote.Until().IsZero() {
		r.report(StateStopping)
	}
	leaver.Leave(ctx, r.env(task, r.remote.Start()))
}

func (r *running) env(task Task, start Start) Env {
	return Env{
		Task: task, Start: start, Instance: r.s.cfg.Instance, T: r.s.cfg.Lease, Lease: r.hold, Remote: r.remote,
		Processes: commands{r, start}, HTTP: requests{r.s}, Callbacks: r.s.cfg.Registry, Environ: r.s.cfg.Environ,
		Status: &reporter{r: r}, Metrics: r.s.cfg.Metrics, Log: r.log,
	}
}

// requests gives the clients of a supervisor. It implements [HTTP].
type requests struct{ s *Supervisor }

func (q requests) Client(caFile string) (*http.Client, error) { return q.s.cfg.HTTPClient(caFile) }

func (q requests) Turn(ctx context.Context) (done func(), err error) { return turn(ctx, q.s.calls) }

// reporter notes what a run says about itself. It implements [Status].
type reporter struct {
	r    *running
	mu   sync.Mutex
	over bool // it was told to stop: what it says comes too late
}

func (p *reporter) Running() { p.say(StateRunning) }

func (p *reporter) Trouble(err error) { p.say(StateRunning, lastError(err)) }

func (p *reporter) say(state string, change ...func(*elect.TaskStatus)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.over {
		p.r.report(state, change...)
	}
}

func (p *reporter) stopping() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.over = true
	p.r.report(StateStopping)
}

var _ Lease = (*elect.Lease)(nil)
