package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/shardctl/shardctl/internal/clock"
	"github.com/shardctl/shardctl/internal/decode"
	"github.com/shardctl/shardctl/pkg/api"
	"github.com/shardctl/shardctl/pkg/client"
)

// waitOptions are the flags of wait.
type waitOptions struct {
	aim, group string
	timeout    time.Duration
}

func waitCommand(g *Globals) *cobra.Command {
	var o waitOptions
	cmd := finish(&cobra.Command{
		Use:   "wait --for=balanced|running|done [TASK | -g GROUP]",
		Short: "Wait until tasks are spread, running or done",
		Long: `Wait until all tasks, those of a group, or the named ones are as asked:

  balanced  every task is owned and none moves or starts, spread as evenly as caps allow
  running   every task is running, waiting for its next tick, or has ended well
  done      every task has ended well

What a replica says while the store is away counts for nothing: the command waits for the store as well.

Exit code 0: it is so; 1: not within the time, or it cannot become so because a task has failed; 3: the time is over,
and it is not known, since the store is away. With --stale=warn that is 1.`,
		Example: `  shardctl wait --for=balanced -g topics --timeout 2m
  shardctl wait --for=running topics/topic-007
  shardctl wait --for=done jobs/import-2026 --timeout 1h
  shardctl wait --for=done jobs/import-2026 --config shardctl.yaml`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.check(args); err != nil {
				return err
			}
			return o.wait(g, cmd, args)
		},
	})
	g.addReading(cmd, staleFail)
	fs := cmd.Flags()
	fs.StringVar(&o.aim, "for", "", "balanced, running or done")
	fs.StringVarP(&o.group, "group", "g", "", "only this group")
	DurationFlag(fs, &o.timeout, "timeout", time.Minute, "how long at most; 0: look once")
	cmd.ValidArgsFunction = g.completeTask(&o.group)
	g.completeGroup(cmd)
	fixedWords(cmd, "for", "balanced", "running", "done")
	return cmd
}

func (o *waitOptions) check(args []string) error {
	switch {
	case o.aim != "balanced" && o.aim != "running" && o.aim != "done":
		if near := decode.Nearest(o.aim, []string{"balanced", "running", "done"}); near != "" {
			return usage("--for %q: did you mean %s?", o.aim, near)
		}
		return usage("--for %q: want balanced, running or done", o.aim)
	case o.aim == "balanced" && len(args) > 0:
		return usage("--for=balanced is of groups: leave out %s, or name a group with -g", args[0])
	case o.timeout < 0:
		return usage("--timeout %s: want 0 or more", o.timeout)
	}
	return nil
}

// How long wait waits between two looks: at a replica, and at a store, of which each look reads everything.
const (
	waitPace  = 250 * time.Millisecond
	storePace = time.Second
)

func (o waitOptions) wait(g *Globals, cmd *cobra.Command, args []string) error {
	client, err := g.Client(cmd.Context())
	if err != nil {
		return err
	}
	if _, err := wantTasks(args, o.group); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), max(o.timeout, time.Millisecond))
	defer cancel()
	// The last look is given its time, also when the whole is over meanwhile.
	looking, stop := context.WithTimeout(cmd.Context(), o.timeout+lookTimeout)
	defer stop()
	progress := progress{w: cmd.ErrOrStderr()}
	defer progress.end()
	pace := waitPace
	for {
		if g.isOffline() {
			pace = storePace
			if client, err = g.Client(looking); err != nil {
				return err
			}
		}
		g.stale.heard.Store(false)
		missing, err := o.look(looking, client, args)
		var never neverError
		var bad *api.Error
		switch {
		case g.stale.heard.Load(): // neither that it is so nor that it cannot become so
			missing = awayText
		case err == nil && missing == "":
			return nil
		case errors.As(err, &never):
			return never
		case errors.As(err, &bad) && bad.Status < 500:
			return err
		case err != nil: // a replica that is unreachable now may be back in time
			missing = g.explain(cmd, client, err).Error()
		}
		progress.show(missing)
		if clock.Sleep(ctx, pace) != nil {
			progress.end()
			return fmt.Errorf("not %s after %s: %s", o.aim, o.timeout, missing)
		}
	}
}

// awayText is what an answer lacks that is stale.
const awayText = "the store is unreachable, and what was last seen may not be so any more"

// lookTimeout is how long the last look may take after the time is over.
const lookTimeout = 5 * time.Second

// look says what is still missing, empty when nothing is.
func (o *waitOptions) look(ctx context.Context, c *client.Client, args []string) (string, error) {
	if len(args) > 0 {
		return o.lookAtTasks(ctx, c, args)
	}
	groups, err := c.Groups().List(ctx, client.Filter{Group: o.group})
	if err != nil {
		return "", err
	}
	var missing []string
	for i := range groups {
		text, err := lacks(o.aim, &groups[i])
		if err != nil {
			return "", err
		}
		if text != "" {
			missing = append(missing, groups[i].Name+": "+text)
		}
	}
	switch {
	case len(groups) == 0 && o.group != "":
		return "no group " + o.group + " is known yet", nil
	case len(groups) == 0:
		return "no group is known yet", nil
	}
	return strings.Join(missing, "; "), nil
}

func (o *waitOptions) lookAtTasks(ctx context.Context, c *client.Client, args []string) (string, error) {
	w, err := wantTasks(args, o.group)
	if err != nil {
		return "", err
	}
	f := client.Filter{Group: o.group}
	w.narrow(&f)
	tasks, err := c.Tasks().List(ctx, f)
	if err != nil {
		return "", err
	}
	counts := api.Group{Name: args[0]}
	for i := range tasks {
		if w.match(tasks[i].Key) {
			counts.Count(tasks[i].State)
		}
	}
	if counts.Tasks == 0 {
		return "no task " + args[0] + " is known yet", nil
	}
	return lacks(o.aim, &counts)
}

// neverError says that waiting longer is useless.
type neverError struct{ error }

// lacks says what the group lacks of what is aimed at, empty when nothing; a [neverError] when it will not come by
// itself.
func lacks(aim string, g *api.Group) (string, error) {
	if aim == "balanced" {
		return lacksBalance(g), nil
	}
	if g.Failed > 0 {
		return "", neverError{fmt.Errorf("%s: %d failed; `shardctl get tasks` shows which, and why", g.Name, g.Failed)}
	}
	if aim == "running" {
		return others(g, api.Running, api.Waiting, api.Done), nil
	}
	return others(g, api.Done), nil
}

func lacksBalance(g *api.Group) string {
	text := others(g, api.Running, api.Waiting, api.Done, api.Paused, api.Failed, api.Backoff)
	if g.Imbalance > 1 {
		text = strings.TrimPrefix(text+", ", ", ") + fmt.Sprintf("imbalance %d", g.Imbalance)
	}
	return text
}

// others counts the tasks in all states but these: "3 unassigned, 1 starting".
func others(g *api.Group, but ...api.TaskState) string {
	var parts []string
	for _, state := range api.TaskStates() {
		if n := g.InState(state); n > 0 && !slices.Contains(but, state) {
			parts = append(parts, fmt.Sprintf("%d %s", n, state))
		}
	}
	return strings.Join(parts, ", ")
}

// progress keeps one line of a terminal up to date; elsewhere it writes nothing.
type progress struct {
	w     io.Writer
	shown bool
}

func (p *progress) show(text string) {
	if terminal(p.w) {
		p.shown = true
		width, _ := sizeOf(p.w)
		line := (&surface{Width: width - 1}).cut("waiting: " + Printable(text)) // a line that wraps could not be erased
		_, _ = fmt.Fprint(p.w, "\r\x1b[K"+line)                                 // decoration: nothing hangs on it
	}
}

func (p *progress) end() {
	if p.shown {
		p.shown = false
		_, _ = fmt.Fprint(p.w, "\r\x1b[K") // decoration: nothing hangs on it
	}
}
