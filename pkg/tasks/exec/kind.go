package exec

import (
	_ "embed"
	"fmt"
	"slices"
	"strings"

	"github.com/shardctl/shardctl/pkg/tasks"
	"github.com/shardctl/shardctl/pkg/tasks/decode"
)

//go:embed schema.json
var schema string

// Kind reads runners of commands from a configuration.
type Kind struct{}

// Name is "exec".
func (Kind) Name() string { return Name }

// Schema is that of the mapping with command, env, dir and ready.
func (Kind) Schema() string { return schema }

// Fields are those of work.
func (Kind) Fields() tasks.Fields { return tasks.FieldsOfWork() }

// Parse reads a Runner. Variables that the task's own env sets count for its command and dir.
func (Kind) Parse(n *decode.Node, r *decode.Reader) tasks.Runner {
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
func (r Runner) Validate(tasks.Use) []decode.FieldError {
	var faults []decode.FieldError
	switch {
	case len(r.Command) == 0:
		faults = append(faults, decode.FieldError{Path: []string{"command"}, Message: "is required: a list of the program and its arguments"})
	case r.Command[0] == "":
		faults = append(faults, decode.FieldError{Path: []string{"command", "0"}, Message: "is empty, must be a program"})
	}
	for name := range r.Env {
		var message string
		switch {
		case name == "" || strings.ContainsAny(name, "=\x00"):
			message = "the name of a variable must not be empty or hold ="
		case decode.IsOwn(name):
			message = "is set by shardctl for every task: choose another name"
		default:
			continue
		}
		faults = append(faults, decode.FieldError{Path: []string{"env", name}, Name: true, Message: message})
	}
	slices.SortFunc(faults, func(a, b decode.FieldError) int { return strings.Compare(fmt.Sprint(a.Path), fmt.Sprint(b.Path)) })
	return faults
}

// Print shows the fields as they are written.
func (r Runner) Print(tasks.Use) any {
	command := make([]string, len(r.Command))
	for i, arg := range r.Command {
		command[i] = decode.WithoutPasswords(arg)
	}
	ready := decode.Fields{{Name: "delay", Value: decode.Short(r.Ready.Delay)}}
	if r.Ready.Notify {
		ready = decode.Fields{{Name: "notify", Value: true}}
	}
	return decode.Fields{
		{Name: "command", Value: command},
		{Name: "env", Value: decode.Map(decode.WithoutPasswordsIn(r.Env))},
		{Name: "dir", Value: decode.TextOrNil(r.Dir)},
		{Name: "ready", Value: ready},
	}
}
