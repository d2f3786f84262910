package cli

import (
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/shardctl/shardctl/internal/operate"
	"github.com/shardctl/shardctl/internal/record"
	"github.com/shardctl/shardctl/internal/snapshot"
	"github.com/shardctl/shardctl/internal/verbs"
	"github.com/shardctl/shardctl/pkg/api"
	"github.com/shardctl/shardctl/pkg/balancer"
	"github.com/shardctl/shardctl/pkg/client"
)

// change is a command that changes something.
type change struct {
	verb verbs.Verb

	globals *Globals
	reason  string
	dryRun  bool

	group, selector string // of tasks
	strict          bool   // of a verb whose target is a place
	wait            bool   // of one that is answered before it has its effect
	timeout         time.Duration
	lasts           time.Duration // of a verb that lasts; 0: until it is taken back
}

// changeCommands returns a command for each verb.
func changeCommands(g *Globals) []*cobra.Command {
	var commands []*cobra.Command
	for _, verb := range verbs.All() {
		c := &change{verb: verb, globals: g}
		var cmd *cobra.Command
		switch {
		case verb.About(record.ScopeTask) && verb.Target != verbs.NoTarget:
			cmd = c.targetCommand()
		case verb.About(record.ScopeTask):
			cmd = c.taskCommand()
		case verb.About(record.ScopeGroup):
			cmd = c.groupCommand()
		case verb.Later:
			cmd = c.emptyingCommand()
		default:
			cmd = c.instanceCommand(c.ofInstance)
		}
		commands = append(commands, cmd)
	}
	return commands
}

// command has what all commands share that change something. args is how those of the verb are written.
func (c *change) command(
	args string, check cobra.PositionalArgs, run func(*cobra.Command, []string) error,
) *cobra.Command {
	cmd := finish(&cobra.Command{
		Use: string(c.verb.Name) + " " + args, Short: c.verb.Help.Short, Long: c.verb.Help.Long,
		Example: c.verb.Help.Example, Args: check, RunE: run,
	})
	c.globals.addFlags(cmd)
	if c.globals.Change != nil {
		cmd.Flags().StringArrayVar(
			&c.globals.config, "config", nil, "write to the store of this configuration instead of asking a replica",
		)
	}
	cmd.Flags().StringVar(&c.reason, "reason", "", "why, for who looks later")
	cmd.Flags().BoolVar(&c.dryRun, "dry-run", false, "change nothing, and show what would move")
	if c.verb.Lasts() {
		until := "for how long, such as 90s or 2h; default: until " + string(c.verb.Back)
		positiveFlag(cmd.Flags(), &c.lasts, "for", until)
	}
	return cmd
}

// instanceCommand is a command about one instance.
func (c *change) instanceCommand(run func(cmd *cobra.Command, instance string) error) *cobra.Command {
	cmd := c.command("INSTANCE", oneInstance, func(cmd *cobra.Command, args []string) error {
		return run(cmd, args[0])
	})
	cmd.ValidArgsFunction = c.globals.complete(instances().names)
	return cmd
}

// taskCommand is a command about tasks, or about a group as a whole where the verb takes one.
func (c *change) taskCommand() *cobra.Command {
	cmd := c.command("TASK...", nil, func(cmd *cobra.Command, args []string) error {
		whole := c.verb.About(record.ScopeGroup)
		if whole && len(args) == 0 && c.selector == "" && c.group != "" {
			return c.ofGroup(cmd, c.group)
		}
		return c.ofTasks(cmd, args, operate.Request{})
	})
	c.addSelection(cmd)
	cmd.ValidArgsFunction = c.globals.complete(taskNames(&c.group))
	return cmd
}

// targetCommand is a command about tasks and an instance.
func (c *change) targetCommand() *cobra.Command {
	place := c.verb.Target == verbs.ToPlace
	cmd := c.command("TASK... INSTANCE", c.tasksAndInstance, func(cmd *cobra.Command, args []string) error {
		last := len(args) - 1
		if err := c.ofTasks(cmd, args[:last], operate.Request{To: args[last], Strict: c.strict}); err != nil {
			return err
		}
		if place {
			c.noteUnmatched(cmd, args[last])
		}
		return nil
	})
	c.addSelection(cmd)
	c.completeTasksAndInstance(cmd)
	if place {
		cmd.Flags().BoolVar(&c.strict, "strict", false, "rather leave them unassigned than run them elsewhere")
	}
	return cmd
}

// groupCommand is a command about one group, or about all.
func (c *change) groupCommand() *cobra.Command {
	cmd := c.command("[-g GROUP]", cobra.NoArgs, func(cmd *cobra.Command, _ []string) error {
		if c.group != "" {
			return c.ofGroup(cmd, c.group)
		}
		groups, err := c.groups(cmd)
		for i := 0; err == nil && i < len(groups); i++ {
			err = c.ofGroup(cmd, groups[i].Name)
		}
		return err
	})
	cmd.Flags().StringVarP(&c.group, "group", "g", "", "only this group")
	c.globals.completeGroup(cmd)
	return cmd
}

func (c *change) addSelection(cmd *cobra.Command) {
	cmd.Flags().StringVarP(
		&c.group, "group", "g", "", "the group of tasks that are named without it; of all where none is named",
	)
	cmd.Flags().StringVarP(&c.selector, "selector", "l", "", "only tasks with these labels: k=v,k!=v,k in (a,b),!k")
	c.globals.completeGroup(cmd)
}

// completeTasksAndInstance offers tasks, and after the first one instances as well.
func (c *change) completeTasksAndInstance(cmd *cobra.Command) {
	cmd.ValidArgsFunction = func(
		cmd *cobra.Command, args []string, typed string,
	) ([]string, cobra.ShellCompDirective) {
		found, directive := c.globals.complete(taskNames(&c.group))(cmd, args, typed)
		if len(args) > 0 || c.selector != "" {
			instances, _ := c.globals.complete(instances().names)(cmd, args, typed)
			found = append(instances, found...)
		}
		return found, directive
	}
}

// noteUnmatched says that no instance matches a pin now: its name may be misspelled. That is no error, since the
// instance may be about to start. Nor is it one that they cannot be listed: the tasks are pinned.
func (c *change) noteUnmatched(cmd *cobra.Command, to string) {
	var instances []api.Instance
	replica, err := c.globals.Client(cmd.Context())
	if err == nil {
		instances, err = replica.Instances().List(cmd.Context(), client.Filter{State: "live,draining"})
	}
	note := "no instance matches " + to + " now: until one starts, they run anywhere"
	if c.strict {
		note = "no instance matches " + to + " now: until one starts, they do not run"
	}
	switch {
	case err != nil:
		note = "whether an instance matches " + to + " now is not known: " + root(err).Error()
	case slices.ContainsFunc(instances, func(i api.Instance) bool { return balancer.PinnedTo(to, i.Name, i.Zone) }):
		return
	}
	_, _ = fmt.Fprintf(cmd.ErrOrStderr(), "note: %s\n", Printable(note)) // nothing depends on it
}

func oneInstance(_ *cobra.Command, args []string) error {
	if len(args) != 1 {
		return usage("name one instance; `shardctl get instances` lists those there are")
	}
	return nil
}

// tasksAndInstance wants tasks, or labels of tasks, and an instance at the end.
func (c *change) tasksAndInstance(_ *cobra.Command, args []string) error {
	if len(args) < 1 || len(args) < 2 && c.selector == "" {
		return usage(
			"name tasks as GROUP/NAME, or '*' and -g for all of a group, or select them with -l, and then an instance",
		)
	}
	return nil
}

// groups are all there are.
func (c *change) groups(cmd *cobra.Command) ([]api.Group, error) {
	replica, err := c.globals.Client(cmd.Context())
	if err != nil {
		return nil, err
	}
	groups, err := replica.Groups().List(cmd.Context(), client.Filter{})
	return groups, c.globals.explain(cmd, replica, err)
}

func (c *change) ofInstance(cmd *cobra.Command, name string) error {
	return c.do(cmd, asking{request: operate.Request{Scope: record.ScopeInstance, Names: []string{name}}})
}

func (c *change) ofGroup(cmd *cobra.Command, name string) error {
	return c.do(cmd, asking{request: operate.Request{Scope: record.ScopeGroup, Names: []string{name}}})
}

func (c *change) ofTasks(cmd *cobra.Command, args []string, request operate.Request) error {
	if len(args) == 0 && c.selector == "" && c.group == "" {
		return usage("%s: name tasks as GROUP/NAME, or select them with -l, or all of a group with -g", c.verb.Name)
	}
	want, err := wantTasks(args, c.group)
	if err != nil {
		return err
	}
	selector, err := snapshot.ParseSelector(c.selector)
	if err != nil {
		return usage("-l: %w", err)
	}
	which := snapshot.Selection{Patterns: want.args, Selector: selector}
	if len(which.Patterns) == 0 && c.group != "" {
		which.Patterns = []string{c.group + "/*"}
	}
	request.Scope, request.Names = record.ScopeTask, which.Patterns
	if len(request.Names) == 0 {
		request.Names = []string{"*/*"} // all that the labels select
	}
	return c.do(cmd, asking{request: request, which: &which})
}
