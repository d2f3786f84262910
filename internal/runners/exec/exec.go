// Package exec is the kind of task that runs a command.
//
// The command gets the replica's environment less what opens the store or the admin API. It also gets the env of the
// task, and the task's own variables such as SHARDCTL_FENCING_TOKEN. It counts as running at once, after a delay, or
// when it says READY=1 as sd_notify(3) does.
package exec

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/shardctl/shardctl/internal/decode"
	"github.com/shardctl/shardctl/internal/field"
	"github.com/shardctl/shardctl/internal/kind"
	"github.com/shardctl/shardctl/internal/taskrun"
	"github.com/shardctl/shardctl/internal/variables"
	"github.com/shardctl/shardctl/pkg/tasks"
)

// Name is the field of a task that chooses this kind.
const Name = "exec"

// Runner runs a command. Fields are as written: $(NAME) in them is replaced at each start.
type Runner struct {
	Command []string          // program and arguments; a program without a slash is looked for in the command's PATH
	Env     map[string]string // in addition to the replica's environment
	Dir     string            // empty: the replica's
	Ready   Ready
}

// Ready says when a started command counts as running: after Delay, or once it sends READY=1 as sd_notify does.
type Ready struct {
	Delay  time.Duration
	Notify bool
}

// Kind is "exec".
func (r Runner) Kind() string { return Name }

// NeedsRestart says whether the commands differ in anything.
func (r Runner) NeedsRestart(old tasks.Runner) bool { return !reflect.DeepEqual(old, tasks.Runner(r)) }

// Run runs the command once.
func (r Runner) Run(ctx context.Context, env taskrun.Env) tasks.Ending {
	child, ready, err := r.start(ctx, env)
	if err != nil {
		return tasks.NotStarted(ctx, err)
	}
	defer ready.close()
	isReady, stopDelay := ready.started()
	defer stopDelay()
	for running := true; running; {
		select {
		case <-isReady:
			env.Status.Running()
			isReady = nil
		case <-child.Exited():
			running = false
		case <-ctx.Done():
			running = false
		}
	}
	return child.End(ctx)
}

// start expands and starts the command. On an error nothing of it is left.
func (r Runner) start(ctx context.Context, env taskrun.Env) (taskrun.Child, *readiness, error) {
	command, err := r.Prepare(env)
	if err != nil {
		return nil, nil, err
	}
	ready, err := newReadiness(ctx, r.Ready)
	if err != nil {
		return nil, nil, err
	}
	command.Environ = append(command.Environ, ready.environ()...)
	child, err := env.Processes.Start(ctx, command)
	if err != nil {
		ready.close()
		return nil, nil, err
	}
	return child, ready, nil
}

// Kind reads runners of commands from a configuration.
type Kind struct{}

// Name is "exec".
func (Kind) Name() string { return Name }

// Schema is that of the mapping with command, env, dir and ready.
func (Kind) Schema() string { return new(Runner).fields().SchemaIn(100, "Runs a command.") }

// Fields are those of work.
func (Kind) Fields() kind.Fields { return kind.FieldsOfWork() }

// Parse reads a Runner. Variables that the task's own env sets count for its command and dir.
func (Kind) Parse(n *decode.Node, r *decode.Reader) kind.Runner {
	var runner Runner
	runner.fields().Read(n, r)
	if delay := n.At("ready", "delay"); delay != nil && runner.Ready.Notify {
		r.Add(delay, "goes without notify: a task is ready after delay or by notify")
	}
	env := n.Get("env")
	r.CheckStart(env, nil)
	r.CheckStart(n.Get("command"), env)
	r.CheckStart(n.Get("dir"), env)
	return runner
}

// Fields are those of the command itself.
func (r *Runner) Fields() field.List {
	return field.List{
		{
			Name: "command", Value: field.Literals{To: &r.Command, Min: 1},
			Doc: "Program and arguments; no shell is involved.",
		},
		{Name: "env", Value: field.Map{To: &r.Env}, Doc: "Added to the replica's environment."},
		{
			Name: "dir", Value: field.Literal{To: &r.Dir}, Off: r.Dir == "",
			Doc: "Working directory.", Unset: "the replica's",
		},
	}
}

func (r *Runner) fields() field.List {
	return append(r.Fields(), field.Field{
		Name: "ready",
		Doc:  "When starting becomes running: after delay, or once the command sends READY=1 as sd_notify does.",
		Value: field.Mapping{Sorted: true, Fields: field.List{
			{Name: "delay", Value: field.Duration{To: &r.Ready.Delay, Zero: true}, Off: r.Ready.Notify},
			{Name: "notify", Value: field.Truth{To: &r.Ready.Notify, Named: true}, Off: !r.Ready.Notify},
		}},
	})
}

// Validate checks the command and the names of its variables.
func (r Runner) Validate(kind.Use) []decode.FieldError {
	var wrong []decode.FieldError
	switch {
	case len(r.Command) == 0:
		wrong = append(wrong, decode.FieldError{
			Path: []string{"command"}, Message: "is required: a list of the program and its arguments",
		})
	case r.Command[0] == "":
		wrong = append(wrong,
			decode.FieldError{Path: []string{"command", "0"}, Message: "is empty, must be a program"})
	}
	for _, name := range slices.Sorted(maps.Keys(r.Env)) {
		path := []string{"env", name}
		switch {
		case name == "" || strings.ContainsAny(name, "=\x00"):
			wrong = append(wrong, decode.WrongName(path, "the name of a variable must not be empty or hold ="))
		case variables.IsOwn(name):
			wrong = append(wrong, decode.WrongName(path, "is set by shardctl for every task: choose another name"))
		}
	}
	return wrong
}

// Print shows the fields as they are written, secrets hidden.
func (r Runner) Print(kind.Use) any { return r.fields().Print() }

// Prepare expands the command for one start. The task's own variables win over its env, and that over the replica's;
// values of env see the own ones and the replica's. An error names the field.
func (r Runner) Prepare(env taskrun.Env) (taskrun.Command, error) {
	base, own := variables.Parse(env.Environ()), env.Own()
	set := make(variables.Set, len(r.Env))
	for _, name := range slices.Sorted(maps.Keys(r.Env)) {
		value, err := variables.Expand(r.Env[name], variables.LookupIn(own, base))
		if err != nil {
			return taskrun.Command{}, fmt.Errorf("exec.env.%s: %w", name, err)
		}
		set[name] = value
	}
	all := variables.LookupIn(own, set, base)
	dir, err := variables.Expand(r.Dir, all)
	if err != nil {
		return taskrun.Command{}, fmt.Errorf("exec.dir: %w", err)
	}
	args := make([]string, len(r.Command))
	for i, arg := range r.Command {
		if args[i], err = variables.Expand(arg, all); err != nil {
			return taskrun.Command{}, fmt.Errorf("exec.command[%d]: %w", i, err)
		}
	}
	if len(args) == 0 || args[0] == "" {
		return taskrun.Command{}, errors.New("exec.command: it is empty")
	}
	maps.DeleteFunc(base, func(name, _ string) bool { return variables.Withheld(name, env.Withheld...) })
	if env.Trace.Parent != "" {
		delete(base, "TRACESTATE") // it goes with the trace that the replica itself may have been started in
	}
	maps.Copy(base, set)
	maps.Copy(base, own)
	return taskrun.Command{Args: args, Environ: base.List(), Dir: dir}, nil
}
