package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/shardctl/shardctl/internal/decode"
	"github.com/shardctl/shardctl/internal/snapshot"
	"github.com/shardctl/shardctl/internal/status"
	"github.com/shardctl/shardctl/pkg/api"
	"github.com/shardctl/shardctl/pkg/client"
)

// wantKind wants the name of a list as the first argument. say is what there is to say otherwise.
func wantKind(verb string, args, words []string, say string) error {
	if len(args) == 0 || kindOf(args[0]) == "" {
		if len(args) > 0 {
			if near := decode.Nearest(args[0], words); near != "" {
				return fmt.Errorf("%s %s: did you mean %s?", verb, args[0], near)
			}
			say = fmt.Sprintf("%s %s: there is no such thing; %s", verb, args[0], say)
		}
		return errors.New(say)
	}
	return nil
}

// suggest adds to an error that says that a name is not known the one that was probably meant. Names are listed for it;
// where they cannot be, the error stays as it is.
func suggest(ctx context.Context, c *client.Client, all names, name string, err error) error {
	if !errors.Is(err, client.ErrNotFound) {
		return err
	}
	known, failed := all(ctx, c)
	if failed != nil {
		return err
	}
	if near := decode.Nearest(name, known); near != "" {
		return fmt.Errorf("%w; did you mean %s?", err, near)
	}
	return err
}

// wanted are the names on the command line: a name, or a pattern with * ? [ ].
type wanted struct {
	args  []string
	found []bool
}

func wantNames(args []string) (*wanted, error) {
	if err := snapshot.Patterns(args).Validate(); err != nil {
		return nil, usage("%w", err)
	}
	return &wanted{args, make([]bool, len(args))}, nil
}

// wantTasks reads GROUP/NAME, or NAME with a group, or a pattern of either; a pattern of a name alone is looked for in
// all groups.
func wantTasks(args []string, group string) (*wanted, error) {
	full := make([]string, len(args))
	for i, arg := range args {
		switch {
		case strings.Contains(arg, "/"):
			full[i] = arg
		case group != "":
			full[i] = group + "/" + arg
		case snapshot.IsPattern(arg):
			full[i] = "*/" + arg
		default:
			return nil, usage("task %q: say GROUP/%s, or its group with -g", arg, arg)
		}
	}
	return wantNames(full)
}

// wantLocks reads names of locks as they are, which may have a slash or not. With a group they are those of tasks. A
// pattern without a slash is looked for in names of both kinds.
func wantLocks(args []string, group string) (*wanted, error) {
	if group != "" {
		return wantTasks(args, group)
	}
	full := slices.Clone(args)
	for _, arg := range args {
		if snapshot.IsPattern(arg) && !strings.Contains(arg, "/") {
			full = append(full, "*/"+arg)
		}
	}
	return wantNames(full)
}

// mostNameBytes is how many bytes the names in one request may have together. A query takes them with every byte escaped.
const mostNameBytes = 4 << 10

// narrow has a replica leave out what is not wanted, as far as it takes so many names.
func (w *wanted) narrow(f *client.Filter) {
	if len(w.args) <= status.MaxValues && len(strings.Join(w.args, "")) <= mostNameBytes {
		f.Names = w.args
	}
}

// match says whether this one is wanted; with no names all are.
func (w *wanted) match(name string) bool {
	if len(w.args) == 0 {
		return true
	}
	matched := false
	for i, arg := range w.args {
		if (snapshot.Patterns{arg}).Match(name) {
			w.found[i], matched = true, true
		}
	}
	return matched
}

// missing are the names, patterns apart, of which nothing was found.
func (w *wanted) missing() []string {
	var list []string
	for i, arg := range w.args {
		if !w.found[i] && !snapshot.IsPattern(arg) {
			list = append(list, arg)
		}
	}
	return list
}

// single says whether exactly one thing was named.
func (w *wanted) single() bool { return len(w.args) == 1 && !snapshot.IsPattern(w.args[0]) }

// completionTimeout is how long a press of tab waits at most.
const completionTimeout = 2 * time.Second

// names lists names in the cluster that may be about to be typed.
type names func(ctx context.Context, c *client.Client) ([]string, error)

// complete offers names that begin as typed. A replica that does not answer offers none.
func (g *Globals) complete(of names) cobra.CompletionFunc {
	return func(cmd *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
		ctx, cancel := context.WithTimeout(cmd.Context(), completionTimeout)
		defer cancel()
		client, err := g.Client(ctx)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		all, err := of(ctx, client)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		var found []string
		for _, name := range all {
			// What a terminal obeys cannot be typed, and a shell would show it.
			if strings.HasPrefix(name, typed) && Printable(name) == name {
				found = append(found, name)
			}
		}
		return found, cobra.ShellCompDirectiveNoFileComp
	}
}

// completeGroup offers groups for -g.
func (g *Globals) completeGroup(cmd *cobra.Command) {
	_ = cmd.RegisterFlagCompletionFunc("group", g.complete(groups().names)) // the flag is there
}

// completeTask offers tasks for the first argument.
func (g *Globals) completeTask(group *string) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return g.complete(taskNames(group))(cmd, args, typed)
	}
}

// namesOfKind lists what a word such as tasks stands for. Events and runs are of tasks.
func namesOfKind(kind string, group *string) names {
	if l := lists[kind]; l != nil && kind != "tasks" && kind != "events" {
		return l.names
	}
	return taskNames(group)
}

// taskNames are keys, or the names of a group's tasks.
func taskNames(group *string) names {
	return func(ctx context.Context, c *client.Client) ([]string, error) {
		tasks, err := c.Tasks().List(ctx, client.Filter{Group: *group})
		return namesOf(tasks, func(t *api.Task) string {
			if *group != "" {
				return t.Name
			}
			return t.Key
		}), err
	}
}
