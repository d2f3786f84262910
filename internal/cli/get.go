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

	"github.com/shardctl/shardctl/internal/status"
)

// getOptions are the flags of get.
type getOptions struct {
	group, selector, output string
	watch, noHeaders        bool
}

func getCommand(g *Globals) *cobra.Command {
	var o getOptions
	cmd := finish(&cobra.Command{
		Use:   "get tasks|instances|groups|events|locks [NAME...]",
		Short: "List tasks, instances, groups, events or locks",
		Example: `  shardctl get tasks -g topics
  shardctl get tasks 'topics/topic-0*' -o wide
  shardctl get tasks -l team=core -w
  shardctl get instances -o json`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 || kindOf(args[0]) == "" {
				return errors.New("say what: tasks, instances, groups, events or locks")
			}
			return nil
		},
		ValidArgs: []string{"tasks", "instances", "groups", "events", "locks"},
		RunE: func(cmd *cobra.Command, args []string) error {
			return o.get(g, cmd, kindOf(args[0]), args[1:])
		},
	})
	g.AddFlags(cmd)
	g.addConfig(cmd)
	fs := cmd.Flags()
	fs.StringVarP(&o.group, "group", "g", "", "only of this group")
	fs.StringVarP(&o.selector, "selector", "l", "", "only with these labels: k=v,k!=v,k in (a,b),!k")
	fs.StringVarP(&o.output, "output", "o", string(formatTable), "table, wide, json, yaml or name")
	fs.BoolVarP(&o.watch, "watch", "w", false, "go on with each change")
	fs.BoolVar(&o.noHeaders, "no-headers", false, "leave out the first line")
	return cmd
}

// kindOf is the list that the word means, in the singular and short forms too; empty for none.
func kindOf(word string) string {
	switch strings.ToLower(word) {
	case "tasks", "task":
		return "tasks"
	case "instances", "instance":
		return "instances"
	case "groups", "group":
		return "groups"
	case "events", "event":
		return "events"
	case "locks", "lock":
		return "locks"
	default:
		return ""
	}
}

func (o getOptions) get(g *Globals, cmd *cobra.Command, kind string, names []string) error {
	f, err := parseFormat(o.output)
	if err != nil {
		return err
	}
	if err := o.check(g, kind, f); err != nil {
		return err
	}
	client, err := g.Client(cmd.Context())
	if err != nil {
		return err
	}
	r := request{
		globals: g, client: client, options: o, format: f, names: names,
		filter: status.Filter{Group: o.group, Selector: o.selector},
		out:    cmd.OutOrStdout(), note: cmd.ErrOrStderr(),
	}
	switch kind {
	case "tasks":
		err = run(cmd.Context(), &r, tasks())
	case "instances":
		err = run(cmd.Context(), &r, instances())
	case "groups":
		err = run(cmd.Context(), &r, groups())
	case "events":
		err = run(cmd.Context(), &r, events())
	default:
		err = run(cmd.Context(), &r, locks())
	}
	return g.explain(cmd, client, err)
}

func (o *getOptions) check(g *Globals, kind string, f format) error {
	if o.selector != "" {
		if kind != "tasks" && kind != "instances" {
			return usage("-l selects by labels, which %s do not have", kind)
		}
		if _, err := status.ParseSelector(o.selector); err != nil {
			return usage("-l: %w", err)
		}
	}
	if o.watch && g.isOffline() {
		return usage("-w needs a replica to watch; leave out --config")
	}
	if kind == "events" && g.isOffline() {
		return usage("events are read from a replica; leave out --config")
	}
	if o.watch && f == formatYAML {
		return usage("-w goes with -o table, wide, json or name")
	}
	return nil
}

// request is one get, under way.
type request struct {
	globals   *Globals
	client    *status.Client
	options   getOptions
	format    format
	names     []string
	filter    status.Filter
	out, note io.Writer
}

// resource is a list that can be got: how it is read, named and shown.
type resource[T any] struct {
	kind    string // plural
	columns []column[T]
	name    func(*T) string
	wanted  func(args []string, group string) (*wanted, error)
	list    func(*status.Client, context.Context, status.Filter) ([]T, error)
	watch   func(
		c *status.Client, ctx context.Context, f status.Filter, after string, handle func(status.Change[T]) error,
	) error
	gone func(*T) // marks one that is no more, for a table that is watched
}

func tasks() resource[status.Task] {
	return resource[status.Task]{
		kind: "tasks", columns: taskColumns(), wanted: wantTasks,
		name: func(t *status.Task) string { return t.Key },
		list: (*status.Client).Tasks, watch: withoutID((*status.Client).WatchTasks),
		gone: func(t *status.Task) { t.State = "removed" },
	}
}

func instances() resource[status.Instance] {
	return resource[status.Instance]{
		kind: "instances", columns: instanceColumns(), wanted: wantPlain,
		name: func(i *status.Instance) string { return i.Name },
		list: (*status.Client).Instances, watch: withoutID((*status.Client).WatchInstances),
		gone: func(i *status.Instance) { i.State = "removed" },
	}
}

func groups() resource[status.Group] {
	return resource[status.Group]{
		kind: "groups", columns: groupColumns(), wanted: wantPlain,
		name: func(g *status.Group) string { return g.Name },
		list: (*status.Client).Groups, watch: withoutID((*status.Client).WatchGroups),
		gone: func(*status.Group) {},
	}
}

func events() resource[status.Event] {
	return resource[status.Event]{
		kind: "events", columns: eventColumns(), wanted: wantTasks,
		name: func(e *status.Event) string { return e.Key },
		list: (*status.Client).Events, watch: (*status.Client).WatchEvents,
		gone: func(*status.Event) {},
	}
}

func locks() resource[status.Lock] {
	return resource[status.Lock]{
		kind: "locks", columns: lockColumns(), wanted: wantTasks,
		name: func(l *status.Lock) string { return l.Key },
		list: (*status.Client).Locks, watch: withoutID((*status.Client).WatchLocks),
		gone: func(*status.Lock) {},
	}
}

func wantPlain(args []string, _ string) (*wanted, error) { return wantNames(args) }

// withoutID fits the watches that always begin with a snapshot.
func withoutID[T any](
	watch func(*status.Client, context.Context, status.Filter, func(status.Change[T]) error) error,
) func(*status.Client, context.Context, status.Filter, string, func(status.Change[T]) error) error {
	return func(
		c *status.Client, ctx context.Context, f status.Filter, _ string, handle func(status.Change[T]) error,
	) error {
		return watch(c, ctx, f, handle)
	}
}

// run lists what is asked for, or watches it.
func run[T any](ctx context.Context, r *request, res resource[T]) error {
	w, err := res.wanted(r.names, r.options.group)
	if err != nil {
		return err
	}
	out := lister[T]{
		request: r, resource: res, wanted: w,
		printer: newPrinter(res.columns, r.format == formatWide, !r.options.noHeaders),
	}
	if r.options.watch {
		return out.follow(ctx)
	}
	items, err := res.list(r.client, ctx, r.filter)
	if err != nil {
		return err
	}
	items = out.keep(items)
	if err := out.write(items); err != nil {
		return err
	}
	if missing := w.missing(); len(missing) > 0 && res.kind != "events" {
		return fmt.Errorf("no %s with the name %s; `shardctl get %s` lists those there are",
			res.kind, strings.Join(missing, ", "), res.kind)
	}
	return nil
}

// lister shows one list.
type lister[T any] struct {
	*request
	resource resource[T]
	wanted   *wanted
	printer  *printer[T]
}

func (l *lister[T]) keep(items []T) []T {
	var kept []T
	for i := range items {
		if l.wanted.match(l.resource.name(&items[i])) {
			kept = append(kept, items[i])
		}
	}
	return kept
}

func (l *lister[T]) write(items []T) error {
	var v any = status.List[T]{Items: items}
	if l.wanted.single() && len(items) == 1 && l.resource.kind != "events" {
		v = items[0]
	}
	switch l.format {
	case formatJSON:
		return writeJSON(l.out, v, false)
	case formatYAML:
		return writeYAML(l.out, v)
	default:
		return l.rows(items)
	}
}

// rows writes items for people, or by name alone.
func (l *lister[T]) rows(items []T) error {
	if l.format == formatName {
		for i := range items {
			if _, err := fmt.Fprintln(l.out, l.resource.name(&items[i])); err != nil {
				return err
			}
		}
		return nil
	}
	if len(items) == 0 {
		if len(l.wanted.missing()) > 0 && l.resource.kind != "events" {
			return nil // said as an error
		}
		_, err := fmt.Fprintf(l.note, "No %s found.\n", l.resource.kind)
		return err
	}
	return l.printer.print(l.out, &view{now: l.globals.now(), colour: l.globals.colour(l.out)}, items)
}

// rewatch is how long a watch waits after a break before it begins again.
const rewatch = time.Second

// follow shows the list and then each change, until ctx ends. A connection that breaks is made again, so that a watch
// outlives a rolling update; the first one must succeed.
func (l *lister[T]) follow(ctx context.Context) error {
	begun, last := false, ""
	for {
		err := l.resource.watch(l.client, ctx, l.filter, last, func(c status.Change[T]) error {
			defer func() { begun, last = true, c.ID }()
			return l.change(c, begun)
		})
		if again, err := watchAgain(ctx, err, begun); !again {
			return err
		}
		_ = pause(ctx, rewatch) // when ctx ends the next watch says so
	}
}

// watchAgain says whether a watch that ended with err, and had begun or not, is to begin again, else what it ends with.
func watchAgain(ctx context.Context, err error, begun bool) (again bool, _ error) {
	var write writeError
	switch {
	case ctx.Err() != nil:
		return false, nil //nolint:nilerr // ending a watch is how it is meant to end
	case errors.As(err, &write), !begun:
		return false, err
	default:
		return true, nil
	}
}

// writeError is one of our own output: it is not read any more, and going on is useless.
type writeError struct{ error }

func (l *lister[T]) change(c status.Change[T], again bool) error {
	items := l.keep(c.Items)
	if len(items) == 0 && (again || c.Kind != status.ChangeSnapshot) {
		return nil
	}
	if c.Kind == status.ChangeDelete {
		for i := range items {
			l.resource.gone(&items[i])
		}
	}
	if l.resource.kind == "events" && c.Kind == status.ChangeSnapshot {
		slices.Reverse(items) // as a log: the newest last
	}
	if err := l.writeChange(c.Kind, items); err != nil {
		return writeError{err}
	}
	return nil
}

// writeChange writes a line for each item; JSON says what happened to it, as kubectl's --output-watch-events does.
func (l *lister[T]) writeChange(kind status.ChangeKind, items []T) error {
	if l.format != formatJSON {
		return l.rows(items)
	}
	for i := range items {
		line := struct {
			Type   status.ChangeKind `json:"type"`
			Object T                 `json:"object"`
		}{kind, items[i]}
		if err := writeJSON(l.out, line, true); err != nil {
			return err
		}
	}
	return nil
}
