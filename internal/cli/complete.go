package cli

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/shardctl/shardctl/pkg/api"
	"github.com/shardctl/shardctl/pkg/client"
)

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
			if strings.HasPrefix(name, typed) && plainText(name) == name {
				found = append(found, name)
			}
		}
		return found, cobra.ShellCompDirectiveNoFileComp
	}
}

// completeGroup offers groups for -g.
func (g *Globals) completeGroup(cmd *cobra.Command) {
	_ = cmd.RegisterFlagCompletionFunc("group", g.complete(groupNames)) // the flag is there
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

// namesOfKind lists what a word such as tasks stands for.
func namesOfKind(kind string, group *string) names {
	switch kind {
	case "instances":
		return instanceNames
	case "groups":
		return groupNames
	case "locks":
		return lockNames
	case "overrides":
		return overriddenNames
	case "problems":
		return problemReasons
	default: // events and runs are of tasks
		return taskNames(group)
	}
}

func lockNames(ctx context.Context, c *client.Client) ([]string, error) {
	return namesOf(c.Locks().List(ctx, client.Filter{}))(func(l *api.Lock) string { return l.Key })
}

func overriddenNames(ctx context.Context, c *client.Client) ([]string, error) {
	return namesOf(c.Overrides().List(ctx, client.Filter{}))(func(o *api.Override) string { return o.Name })
}

func problemReasons(ctx context.Context, c *client.Client) ([]string, error) {
	return namesOf(problemSource{c}.List(ctx, client.Filter{}))(func(p *api.Problem) string { return p.Reason })
}

func instanceNames(ctx context.Context, c *client.Client) ([]string, error) {
	return namesOf(c.Instances().List(ctx, client.Filter{}))(func(i *api.Instance) string { return i.Name })
}

func groupNames(ctx context.Context, c *client.Client) ([]string, error) {
	return namesOf(c.Groups().List(ctx, client.Filter{}))(func(g *api.Group) string { return g.Name })
}

// taskNames are keys, or the names of a group's tasks.
func taskNames(group *string) names {
	return func(ctx context.Context, c *client.Client) ([]string, error) {
		return namesOf(c.Tasks().List(ctx, client.Filter{Group: *group}))(func(t *api.Task) string {
			if *group != "" {
				return t.Name
			}
			return t.Key
		})
	}
}

func namesOf[T any](items []T, err error) func(name func(*T) string) ([]string, error) {
	return func(name func(*T) string) ([]string, error) {
		list := make([]string, len(items))
		for i := range items {
			list[i] = name(&items[i])
		}
		return list, err
	}
}
