// Package jsonlines is the sink that gives messages to one long-lived process a run, as JSON lines.
//
// Each message is a line on the standard input of the process. For each it answers a line on its standard output, in
// any order: {"id": "…", "ok": true}, {"id": "…", "error": "why"}, or the bare id. Other lines go to the task's log.
//
// A process that exits, closes its outputs or does not answer in time fails the messages that it was given. It is
// started again for the next.
package jsonlines

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"time"

	"github.com/shardctl/shardctl/internal/decode"
	"github.com/shardctl/shardctl/internal/field"
	"github.com/shardctl/shardctl/internal/kind"
	"github.com/shardctl/shardctl/internal/runners/exec"
	"github.com/shardctl/shardctl/internal/subscribe"
	"github.com/shardctl/shardctl/internal/taskrun"
)

// Name is the field of deliver that chooses this sink.
const Name = exec.Name

// DefaultTimeout is how long a message may be unanswered where nothing else is said.
const DefaultTimeout = 30 * time.Second

// Kind reads sinks from a configuration.
var Kind = decode.Kind[subscribe.Sink]{
	Field: Name,
	Form: func() string {
		return new(Sink).fields(&exec.Runner{}).SchemaIn(100, "Gives messages to one long-lived process, as JSON "+
			"lines on its standard input. It answers one line on its standard output for each.")
	},
	Read: func(n *decode.Node, r *decode.Reader) subscribe.Sink {
		command, _ := exec.Kind{}.Parse(n, r).(exec.Runner)
		s := Sink{Command: command.Command, Env: command.Env, Dir: command.Dir}
		s.timeout().Read(n, r)
		return s
	},
}

// Sink gives messages to a process. Fields are as written: $(NAME) in them is replaced at each start.
type Sink struct {
	Command []string          // program and arguments; a program without a slash is looked for in the command's PATH
	Env     map[string]string // in addition to the replica's environment
	Dir     string            // empty: the replica's
	Timeout time.Duration     // how long a message may be unanswered; 0: the default
}

// Kind is "exec".
func (s Sink) Kind() string { return Name }

// command is what prepares the process. It has no readiness: a process is ready once it reads.
func (s Sink) command() exec.Runner { return exec.Runner{Command: s.Command, Env: s.Env, Dir: s.Dir} }

// Validate checks the command, the names of its variables and the time-out.
func (s Sink) Validate(use kind.Use) []decode.FieldError {
	return append(s.command().Validate(use), subscribe.CheckTimeout(s.Timeout)...)
}

// Print shows the fields as they are written.
func (s Sink) Print(kind.Use) any {
	command := s.command()
	return s.fields(&command).Print()
}

// fields are what a configuration says of the sink, of which command has all but the timeout.
func (s *Sink) fields(command *exec.Runner) field.List {
	return append(command.Fields(), s.timeout()...)
}

func (s *Sink) timeout() field.List {
	return field.List{{
		Name: "timeout", Value: field.Duration{To: &s.Timeout, Default: DefaultTimeout},
		Doc: "How long a message may be unanswered. Then the process is ended, and started again for the next.",
	}}
}

// Open starts the process.
func (s Sink) Open(ctx context.Context, env taskrun.Env, _ string) (subscribe.Receiver, error) {
	s.Timeout = cmp.Or(s.Timeout, DefaultTimeout)
	r := &receiver{sink: s, env: env, sem: make(chan struct{}, 1)}
	if _, err := r.running(ctx); err != nil {
		return nil, err
	}
	return r, nil
}

// receiver gives messages to a process for one run of a task, and starts another when that has ended. It implements
// [subscribe.Receiver].
type receiver struct {
	sink Sink // with the defaults filled in
	env  taskrun.Env
	sem  chan struct{} // has an element while somebody has the process
	now  *process
}

// Batch is 1: several messages are under way at once where several calls are.
func (r *receiver) Batch() int { return 1 }

// Deliver has the messages worked on by the process that runs, or by a new one.
func (r *receiver) Deliver(ctx context.Context, deliveries []subscribe.Delivery) []error {
	p, err := r.running(ctx)
	if err == nil {
		return p.deliver(ctx, deliveries)
	}
	errs := make([]error, len(deliveries))
	for i := range errs {
		errs[i] = err
	}
	return errs
}

// running is the process. Where that has ended another is started, once nothing of it is left: what an old one still
// does must not come after what a new one does.
func (r *receiver) running(ctx context.Context) (*process, error) {
	select {
	case r.sem <- struct{}{}:
		defer func() { <-r.sem }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if r.now != nil {
		select {
		case <-r.now.over:
		default:
			return r.now, nil
		}
		select {
		case <-r.now.gone:
		case <-ctx.Done():
			return nil, fmt.Errorf("exec: the process has not ended yet: %w", context.Cause(ctx))
		}
	}
	p, err := r.start(ctx)
	if err != nil {
		return nil, err
	}
	if r.now != nil {
		r.env.Log.Info("The process was started again", "token", r.env.Start.Token, "reason", r.now.why.Error())
	}
	r.now = p
	return p, nil
}

func (r *receiver) start(ctx context.Context) (*process, error) {
	command, err := r.sink.command().Prepare(r.env)
	if err != nil {
		return nil, err
	}
	read, write, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("exec: open a pipe for messages: %w", err)
	}
	p := newProcess(r.env.Log, write, r.sink.Timeout)
	command.Stdin, command.Answers = read, p
	child, err := r.env.Processes.Start(ctx, command)
	if err != nil {
		_ = write.Close() // no one reads it
		return nil, err
	}
	p.begin(context.WithoutCancel(ctx), child)
	return p, nil
}

// Close has the process end: by the end of its input, then as the task's stop says, and by SIGKILL when ctx ends. That
// is with the task's stop.timeout, so that deliveries and the end of the process share it.
func (r *receiver) Close(ctx context.Context) error {
	if r.now != nil {
		r.now.close(ctx)
	}
	return nil
}
