package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/shardctl/shardctl/pkg/api"
	"github.com/shardctl/shardctl/pkg/client"
)

func describeCommand(g *Globals) *cobra.Command {
	var group string
	var o Output
	cmd := finish(&cobra.Command{
		Use:   "describe task [NAME] | instance NAME | group NAME",
		Short: "Show everything known of a task, an instance or a group, with history and reasons",
		Long: `Show everything known of a task, an instance or a group: its state and the reason for it, what is ` +
			`wrong, what happened
to it lately, and the last runs of a task with a schedule or one that is run once.

Without a name the tasks are described that do not run as they should, or failed when they last ran: with what their
failed runs wrote.` + staleHelp,
		Example: `  shardctl describe task
  shardctl describe task topics/topic-001
  shardctl describe task topic-001 -g topics
  shardctl describe task topics/topic-001 -o jsonpath=.task.message
  shardctl describe instance web-3
  shardctl describe group topics -o yaml`,
		Args: func(_ *cobra.Command, args []string) error {
			const say = "say what, and its name: task GROUP/NAME, instance NAME or group NAME"
			if err := wantKind("describe", args, described, say); err != nil {
				return err
			}
			if len(args) == 1 && singular(args[0]) == "task" {
				return nil
			}
			if len(args) != 2 || describers[singular(args[0])] == nil {
				return errors.New(say)
			}
			return nil
		},
		ValidArgsFunction: func(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
			switch len(args) {
			case 0:
				return described, cobra.ShellCompDirectiveNoFileComp
			case 1:
				return g.complete(namesOfKind(kindOf(args[0]), &group))(cmd, args, typed)
			}
			return nil, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := g.Client(cmd.Context())
			if err != nil {
				return err
			}
			name := strings.Join(args[1:], "")
			all, err := describers[singular(args[0])](&reader{client: client, group: group}, cmd.Context(), name)
			if err != nil {
				err = suggest(cmd.Context(), client, namesOfKind(kindOf(args[0]), &group), name, err)
				return g.explain(cmd, client, err)
			}
			out := cmd.OutOrStdout()
			if !o.Table() {
				return o.Write(out, api.One[facts]{Item: all, Stale: g.stale.heard.Load()})
			}
			d := &description{sections: sections{w: out}, view: g.surface(out)}
			all.show(d)
			return d.err
		},
	})
	g.addReading(cmd, staleWarn)
	cmd.Flags().StringVarP(
		&group, "group", "g", "", "the group of a task that is named without it, or the only one to look at",
	)
	OutputFlag(cmd, &o)
	g.completeGroup(cmd)
	return cmd
}

var described = []string{"task", "instance", "group"}

// facts are all that is known of one thing. As JSON no field is left out.
type facts interface{ show(d *description) }

var describers = map[string]func(*reader, context.Context, string) (facts, error){
	"task": (*reader).task, "instance": (*reader).instance, "group": (*reader).ofGroup,
}

// singular is the kind that a word of the command line means; empty for none.
func singular(word string) string { return strings.TrimSuffix(kindOf(word), "s") }

// Limits of what one screen shows.
const (
	maxEvents = 20
	maxOwned  = 30
)

// reader reads what is described.
type reader struct {
	client *client.Client
	group  string // of a task that is named without it
}

// unknown says of lists that could not be had why: without them the rest is still of use.
type unknown map[string]string

// note keeps the error of a list where that is no reason to show nothing.
func (u unknown) note(what string, err error) error {
	bad, ok := errors.AsType[*api.Error](err)
	if !ok {
		return err
	}
	u[what] = bad.Error()
	return nil
}

func (r *reader) problems(ctx context.Context, about func(*api.Problem) bool) ([]api.Problem, error) {
	s, err := r.client.Status(ctx)
	if err != nil {
		return nil, err
	}
	return filled(slices.DeleteFunc(s.Problems, func(p api.Problem) bool { return !about(&p) })), nil
}

func (r *reader) events(ctx context.Context, f client.Filter, missing unknown) ([]api.Event, error) {
	f.Limit = maxEvents
	events, err := r.client.Events().List(ctx, f)
	if err != nil {
		return nil, missing.note("events", err)
	}
	return filled(events), nil
}

// filled is a list that is written as [] when there is nothing in it: null says that it is not known.
func filled[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

// description is the text of one describe.
type description struct {
	sections
	view *surface
}

// field writes one line, unless there is nothing to say.
func (d *description) field(name, text string) {
	if text != "" && text != "-" {
		d.line(fmt.Sprintf("%-12s %s", name+":", text))
	}
}

// since is a state or an owner, and for how long.
func (d *description) since(what string, t api.Time) string {
	if t.IsZero() || what == "" {
		return what
	}
	return fmt.Sprintf("%s for %s (since %s)", what, d.view.ago(t), t)
}

func (d *description) wrong(found []api.Problem) {
	if len(found) > 0 {
		d.title("problems")
		d.problems(d.view, found)
	}
}

func (d *description) events(found []api.Event, missing unknown) {
	d.title("events")
	if !d.unavailable("events", missing) {
		section(&d.sections, d.view, eventColumns(), found, "none are kept")
	}
}

// unavailable says that a list could not be had, and why.
func (d *description) unavailable(what string, missing unknown) bool {
	why, is := missing[what]
	if is {
		d.line("not known: " + Printable(why))
	}
	return is
}

func reasonText(reason, message string) string {
	switch {
	case message == "":
		return Printable(reason)
	case reason == "":
		return Printable(message)
	default:
		return Printable(reason) + ": " + Printable(message)
	}
}

// positive is a number, or nothing for none.
func positive(n int) string {
	if n == 0 {
		return ""
	}
	return strconv.Itoa(n)
}

// maxDescribed is how many tasks one call describes; it asks the replica three times for each.
const maxDescribed = 10

// failingFacts are what is known of the tasks with anything wrong, those first whose state changed last.
type failingFacts struct {
	Tasks []*taskFacts `json:"tasks"` // at most maxDescribed
	More  int          `json:"more"`  // how many there are beyond these
}

// anythingWrong says whether the task does not run as it should, or failed when it last ran.
func anythingWrong(t *api.Task) bool {
	return t.State == api.Unassigned || t.State == api.Backoff || t.State == api.Failed || t.LastError != ""
}

// failing reads what is known of the tasks with anything wrong, in the group that was named or in all.
func (r *reader) failing(ctx context.Context) (facts, error) {
	tasks, err := r.client.Tasks().List(ctx, client.Filter{Group: r.group})
	if err != nil {
		return nil, err
	}
	tasks = slices.DeleteFunc(tasks, func(t api.Task) bool { return !anythingWrong(&t) })
	slices.SortStableFunc(tasks, func(a, b api.Task) int { return b.StateSince.Compare(a.StateSince.Time) })
	f := &failingFacts{Tasks: []*taskFacts{}, More: max(0, len(tasks)-maxDescribed)}
	for i := range tasks[:min(len(tasks), maxDescribed)] {
		one, err := (&reader{client: r.client}).ofTask(ctx, tasks[i].Key)
		if err != nil {
			return nil, err
		}
		f.Tasks = append(f.Tasks, one)
	}
	return f, nil
}

func (f *failingFacts) show(d *description) {
	if len(f.Tasks) == 0 {
		d.line("No task is unassigned, failed or in backoff, and none failed when it last ran.")
	}
	for i, t := range f.Tasks {
		if i > 0 {
			d.line("")
			d.line("---")
		}
		t.show(d)
	}
	if f.More > 0 {
		d.line("")
		d.line(fmt.Sprintf("and %d more; `shardctl get tasks --sort-by .state` lists all", f.More))
	}
}
