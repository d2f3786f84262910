package exec

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/shardctl/shardctl/pkg/tasks"
	"github.com/shardctl/shardctl/pkg/tasks/decode"
)

// Withheld says whether a variable of the replica is kept from its tasks. These are what opens the store or the admin
// API, and the socket by which the replica shows its own supervisor that it is ready.
func Withheld(name string) bool {
	return name == "SHARDCTL_STORE_URI" || strings.HasPrefix(name, "SHARDCTL_ADMIN_") || name == "NOTIFY_SOCKET"
}

// Prepare expands the command for one start. The task's own variables win over its env, and that over the replica's;
// values of env see the own ones and the replica's. An error names the field.
func (r Runner) Prepare(env tasks.Env) (tasks.Command, error) {
	base, own := tasks.ParseEnviron(env.Environ()), env.Own()
	set := make(tasks.Variables, len(r.Env))
	for _, name := range slices.Sorted(maps.Keys(r.Env)) {
		value, err := decode.Expand(r.Env[name], tasks.LookupIn(own, base))
		if err != nil {
			return tasks.Command{}, fmt.Errorf("exec.env.%s: %w", name, err)
		}
		set[name] = value
	}
	all := tasks.LookupIn(own, set, base)
	dir, err := decode.Expand(r.Dir, all)
	if err != nil {
		return tasks.Command{}, fmt.Errorf("exec.dir: %w", err)
	}
	args := make([]string, len(r.Command))
	for i, arg := range r.Command {
		if args[i], err = decode.Expand(arg, all); err != nil {
			return tasks.Command{}, fmt.Errorf("exec.command[%d]: %w", i, err)
		}
	}
	if len(args) == 0 || args[0] == "" {
		return tasks.Command{}, errors.New("exec.command: it is empty")
	}
	maps.DeleteFunc(base, func(name, _ string) bool { return Withheld(name) })
	if env.Trace.Parent != "" {
		delete(base, "TRACESTATE") // it goes with the trace that the replica itself may have been started in
	}
	maps.Copy(base, set)
	maps.Copy(base, own)
	return tasks.Command{Args: args, Environ: base.List(), Dir: dir}, nil
}
