package exec

import (
	_ "embed"
	"maps"
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
		case decode.IsOwn(name):
			wrong = append(wrong, decode.WrongName(path, "is set by shardctl for every task: choose another name"))
		}
	}
	return wrong
}

// Print shows the fields as they are written.
func (r Runner) Print(tasks.Use) any {
	command := make([]string, len(r.Command))
	for i, arg := range r.Command {
		command[i] = decode.WithoutPasswords(arg)
	}
	ready := decode.Pairs("delay", r.Ready.Delay)
	if r.Ready.Notify {
		ready = decode.Pairs("notify", true)
	}
	return decode.Pairs(
		"command", command,
		"env", decode.Map(decode.WithoutPasswordsIn(r.Env)),
		"dir", decode.TextOrNil(r.Dir),
		"ready", ready,
	)
}
