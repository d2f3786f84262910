package cli

import (
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/shardctl/shardctl/internal/operate"
	"github.com/shardctl/shardctl/internal/printable"
	"github.com/shardctl/shardctl/internal/record"
	"github.com/shardctl/shardctl/internal/snapshot"
	"github.com/shardctl/shardctl/pkg/api"
	"github.com/shardctl/shardctl/pkg/balancer"
	"github.com/shardctl/shardctl/pkg/client"
)

// change is a command that changes something.
type change struct {
	verb api.Verb
	past string // "paused"

	globals *Globals
	reason  string
	dryRun  bool

	group, selector string // of tasks
	strict          bool   // pin
	wait            bool   // drain
	timeout         time.Duration
	lasts           time.Duration // pause, pin, drain, cordon; 0: until it is taken back
}

// help is what the help of a command says.
type help struct{ use, short, long, example string }

func changeCommands(g *Globals) []*cobra.Command {
	return []*cobra.Command{
		drainCommand(g),
		instanceCommand(&change{verb: api.Undrain, past: "undrained", globals: g}, help{
			short: "Let a drained instance take tasks again",
			long: "Let a drained instance take tasks again. It gets its share as balance asks for, once " +
				"membership has settled.",
			example: "  shardctl undrain web-1",
		}),
		instanceCommand(&change{verb: api.Cordon, past: "cordoned", globals: g}, help{
			short: "Let an instance take no new tasks, and keep what it has",
			long: `Let an instance take no new tasks, and keep what it has, until uncordon. A cordon of an instance ` +
				`that is not seen
for 24 hours is forgotten.`,
			example: `  shardctl cordon web-1 --reason "a noisy neighbour"`,
		}),
		instanceCommand(&change{verb: api.Uncordon, past: "uncordoned", globals: g}, help{
			short:   "Let a cordoned instance take new tasks again",
			example: "  shardctl uncordon web-1",
		}),
		taskCommand(&change{verb: api.Pause, past: "paused", globals: g}, help{
			short: "Stop tasks, and run them nowhere until resume",
			long: `Stop tasks, and run them nowhere until resume. With -g and no task the whole group is paused, ` +
				`tasks that are
declared later included. Ticks that are missed meanwhile are not caught up. With --for the pause ends by itself, by the
store's clock.`,
			example: `  shardctl pause topics/topic-007 --reason "its topic is being rebuilt"
  shardctl pause -g topics --for 2h
  shardctl pause -l team=core --dry-run`,
		}),
		taskCommand(&change{verb: api.Resume, past: "resumed", globals: g}, help{
			short: "Let paused tasks run again",
			long: "Let paused tasks run again. A group that was paused as a whole is resumed as a whole: with -g " +
				"and no task.",
			example: "  shardctl resume topics/topic-007\n  shardctl resume -g topics",
		}),
		taskCommand(&change{verb: api.Restart, past: "restarted", globals: g}, help{
			short: "End what runs of tasks, and start it again where it is",
			long: "End what runs of tasks, as a stop would, and start it again on the same instance with a new " +
				"fencing token.",
			example: "  shardctl restart 'topics/topic-0*'\n  shardctl restart -g topics",
		}),
		taskCommand(&change{verb: api.Rerun, past: "to run again", globals: g}, help{
			short:   "Run tasks again that are done or have failed",
			long:    "Run tasks again that are done or have failed for good: their outcome is forgotten.",
			example: "  shardctl rerun jobs/import-2026 --reason \"the input was fixed\"",
		}),
		taskCommand(&change{verb: api.Trigger, past: "triggered", globals: g}, help{
			short: "Fire one tick now, of tasks with a schedule",
			long: `Fire one tick now, of tasks with schedule or every, in addition to those that are due. While a ` +
				`run goes, the tick is fired
after it.`,
			example: "  shardctl trigger jobs/nightly-report",
		}),
		pinCommand(g),
		taskCommand(&change{verb: api.Unpin, past: "unpinned", globals: g}, help{
			short:   "Let pinned tasks go where the plan puts them",
			example: "  shardctl unpin topics/topic-007\n  shardctl unpin -l team=core",
		}),
		moveCommand(g), rebalanceCommand(g),
	}
}

// command has what all commands share that change something.
func (c *change) command(h help, args cobra.PositionalArgs, run func(*cobra.Command, []string) error) *cobra.Command {
	cmd := finish(&cobra.Command{Use: h.use, Short: h.short, Long: h.long, Example: h.example, Args: args, RunE: run})
	c.globals.addFlags(cmd)
	if c.globals.Change != nil {
		cmd.Flags().StringArrayVar(
			&c.globals.config, "config", nil, "write to the store of this configuration instead of asking a replica",
		)
	}
	cmd.Flags().StringVar(&c.reason, "reason", "", "why, for who looks later")
	cmd.Flags().BoolVar(&c.dryRun, "dry-run", false, "change nothing, and show what would move")
	if back, ends := takenBackBy[c.verb]; ends {
		positiveFlag(cmd.Flags(), &c.lasts, "for", "for how long, such as 90s or 2h; default: until "+string(back))
	}
	return cmd
}

// takenBackBy is what ends a change that may also end by itself.
var takenBackBy = map[api.Verb]api.Verb{
	api.Pause: api.Resume, api.Pin: api.Unpin, api.Drain: api.Undrain, api.Cordon: api.Uncordon,
}

func instanceCommand(c *change, h help) *cobra.Command {
	h.use = string(c.verb) + " INSTANCE"
	cmd := c.command(h, oneInstance, func(cmd *cobra.Command, args []string) error {
		return c.ofInstance(cmd, args[0])
	})
	cmd.ValidArgsFunction = c.globals.complete(instances().names)
	return cmd
}

func taskCommand(c *change, h help) *cobra.Command {
	h.use = string(c.verb) + " TASK..."
	cmd := c.command(h, nil, func(cmd *cobra.Command, args []string) error {
		whole := c.verb == api.Pause || c.verb == api.Resume
		if whole && len(args) == 0 && c.selector == "" && c.group != "" {
			return c.ofGroup(cmd, c.group)
		}
		return c.ofTasks(cmd, args, operate.Request{})
	})
	c.addSelection(cmd)
	cmd.ValidArgsFunction = c.globals.complete(taskNames(&c.group))
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

func pinCommand(g *Globals) *cobra.Command {
	c := &change{verb: api.Pin, past: "pinned", globals: g}
	cmd := c.command(help{
		use:   "pin TASK... INSTANCE",
		short: "Keep tasks on an instance",
		long: `Keep tasks on an instance. INSTANCE may be a pattern (web-*) or a zone (zone=eu-1). It is a ` +
			`preference: where no such
instance lives or has capacity, they run elsewhere, and what is not seen for 24 hours is forgotten. With --strict they
stay unassigned then, and the pin is kept until unpin.`,
		example: `  shardctl pin topics/topic-007 web-1
  shardctl pin -l team=core 'zone=eu-1' --strict`,
	}, c.tasksAndInstance, func(cmd *cobra.Command, args []string) error {
		last := len(args) - 1
		if err := c.ofTasks(cmd, args[:last], operate.Request{To: args[last], Strict: c.strict}); err != nil {
			return err
		}
		c.noteUnmatched(cmd, args[last])
		return nil
	})
	c.addSelection(cmd)
	c.completeTasksAndInstance(cmd)
	cmd.Flags().BoolVar(&c.strict, "strict", false, "rather leave them unassigned than run them elsewhere")
	return cmd
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
	_, _ = fmt.Fprintf(cmd.ErrOrStderr(), "note: %s\n", printable.Line(note)) // nothing depends on it
}

func moveCommand(g *Globals) *cobra.Command {
	c := &change{verb: api.Move, past: "asked to move", globals: g}
	cmd := c.command(help{
		use:   "move TASK... INSTANCE",
		short: "Hand tasks over to an instance, once",
		long: "Hand tasks over to an instance, once. The balancer may move them again later: to keep them there, " +
			"pin them.",
		example: "  shardctl move topics/topic-007 web-2",
	}, c.tasksAndInstance, func(cmd *cobra.Command, args []string) error {
		last := len(args) - 1
		return c.ofTasks(cmd, args[:last], operate.Request{To: args[last]})
	})
	c.addSelection(cmd)
	c.completeTasksAndInstance(cmd)
	return cmd
}

func rebalanceCommand(g *Globals) *cobra.Command {
	c := &change{verb: api.Rebalance, past: "to be spread evenly", globals: g}
	cmd := c.command(help{
		use:   "rebalance [-g GROUP]",
		short: "Spread tasks evenly now",
		long: "Spread the tasks of a group, or of all, evenly now: without waiting for membership to settle or " +
			"an update to end.",
		example: "  shardctl rebalance -g topics --dry-run",
	}, cobra.NoArgs, func(cmd *cobra.Command, _ []string) error {
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
		return usage("%s: name tasks as GROUP/NAME, or select them with -l, or all of a group with -g", c.verb)
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
