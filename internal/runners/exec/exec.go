// Package exec is the kind of task that runs a command.
//
// The command gets the replica's environment less what opens the store or the admin API. It also gets the env of the
// task, and the task's own variables such as SHARDCTL_FENCING_TOKEN. It counts as running at once, after a delay, or
// when it says READY=1 as sd_notify(3) does.
package exec

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/shardctl/shardctl/internal/decode"
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

//go:embed schema.json
var schema string

// Kind reads runners of commands from a configuration.
type Kind struct{}

// Name is "exec".
func (Kind) Name() string { return Name }

// Schema is that of the mapping with command, env, dir and ready.
func (Kind) Schema() string { return schema }

// Fields are those of work.
func (Kind) Fields() kind.Fields { return kind.FieldsOfWork() }

// Parse reads a Runner. Variables that the task's own env sets count for its command and dir.
func (Kind) Parse(n *decode.Node, r *decode.Reader) kind.Runner {
	env, command, dir := n.Get("env"), n.Get("command"), n.Get("dir")
	ready := n.Get("ready")
	runner := Runner{
		Command: r.TextList(command),
		Env:     r.Texts(env),
		Dir:     r.Text(dir, ""),
		Ready:   Ready{Delay: r.Duration(ready.Get("delay"), 0), Notify: r.Truth(ready.Get("notify"))},
	}
	if delay := ready.Get("delay"); delay != nil && runner.Ready.Notify {
		r.Add(delay, "goes without notify: a task is ready after delay or by notify")
	}
	r.CheckStart(env, nil)
	r.CheckStart(command, env)
	r.CheckStart(dir, env)
	return runner
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
func (r Runner) Print(kind.Use) any {
	ready := decode.Pairs("delay", r.Ready.Delay)
	if r.Ready.Notify {
		ready = decode.Pairs("notify", true)
	}
	return decode.Pairs(
		"command", decode.WithoutSecretsOf(r.Command),
		"env", decode.Map(decode.WithoutSecretsIn(r.Env)),
		"dir", decode.TextOrNil(r.Dir),
		"ready", ready,
	)
}

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
