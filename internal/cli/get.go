package cli

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/shardctl/shardctl/internal/decode"
	"github.com/shardctl/shardctl/internal/snapshot"
	"github.com/shardctl/shardctl/pkg/api"
	"github.com/shardctl/shardctl/pkg/client"
)

// getOptions are the flags of get.
type getOptions struct {
	group, selector  string
	output           Output
	sortBy           string // JSONPath
	state            string // all but those that are hidden: empty
	kind             string // of locks
	since            since  // of events
	limit            int    // of events
	watch, noHeaders bool
}

func getCommand(g *Globals) *cobra.Command {
	var o getOptions
	cmd := finish(&cobra.Command{
		Use:   "get tasks|instances|groups|events|locks|owners|overrides|problems|runs [NAME...]",
		Short: "List tasks, instances, groups, events, locks, owners, overrides or problems, or the last runs of tasks",
		Long: `List tasks, instances, groups, events, locks, owners, overrides or problems, or the last runs of tasks: all ` +
			`of them, or those
that are named, by name or by a pattern in quotes.

Overrides are what operators asked for and what still counts: who, when, why and until when. They are named by the task,
group or instance that they are about. Problems are named by their reason, and the worst and oldest come first.

Locks are those of tasks, and mutexes, read-write locks and semaphores of programs that are held, waited for or kept.
--kind selects among them.

Owners are the instances that own keys, and the addresses where they take requests for them. Keys without an owner are
left out.

With -w each change is a row with the time of day, until Ctrl-C. A replica that goes away is reported on standard error,
and asked again until it is back.

  -o jsonpath=TEMPLATE  as kubectl takes it, over what -o json shows: '{.items[*].key}', or .state of one thing
  --sort-by PATH        by a field of each: .restarts, .stateSince, .labels.team` + staleHelp,
		Example: `  shardctl get tasks -g topics
  shardctl get tasks 'topics/topic-0*' -o wide
  shardctl get tasks -l team=core -w
  shardctl get tasks --sort-by .restarts
  shardctl get tasks topics/topic-001 -o jsonpath=.instance
  shardctl get instances -o json
  shardctl get events --since 1h --limit 50
  shardctl get events -g topics -w
  shardctl get overrides -l team=core
  shardctl get problems -o json
  shardctl get locks --kind mutex,semaphore -w
  shardctl get owners -g topics
  shardctl get runs jobs/nightly-report`,
		Args: func(_ *cobra.Command, args []string) error {
			return wantKind("get", args, kinds, "say what: "+anyOf(kinds))
		},
		ValidArgsFunction: o.complete(g),
		RunE: func(cmd *cobra.Command, args []string) error {
			kind := kindOf(args[0])
			if err := o.ofEvents(cmd, kind); err != nil {
				return err
			}
			return o.get(g, cmd, kind, args[1:])
		},
	})
	g.addReading(cmd, staleWarn)
	fs := cmd.Flags()
	fs.StringVarP(&o.group, "group", "g", "", "only of this group")
	fs.StringVarP(&o.selector, "selector", "l", "", "only with these labels: k=v,k!=v,k in (a,b),!k")
	outputFlag(cmd, &o.output, formatTable, formatWide, formatJSON, formatYAML, formatName, formatPath)
	fs.StringVar(&o.kind, "kind", "", "only locks of these kinds: "+strings.Join(texts(api.LockKinds()), ","))
	fs.Var(&o.since, "since", "only events from then on: how long ago, as 1h, or a moment, as 2026-01-31T12:00:00Z")
	fs.IntVar(&o.limit, "limit", api.DefaultLimit, "at most so many events, the newest ones")
	fs.StringVar(&o.sortBy, "sort-by", "", "order by the field at this JSONPath, as .restarts")
	fs.BoolVarP(&o.watch, "watch", "w", false, "go on with each change")
	fs.BoolVar(&o.noHeaders, "no-headers", false, "leave out the first line")
	g.completeGroup(cmd)
	fixedWords(cmd, "kind", texts(api.LockKinds())...)
	return cmd
}

var kinds = []string{"tasks", "instances", "groups", "events", "locks", "owners", "overrides", "problems", "runs"}

// complete offers the lists there are, and then names of what is in one.
func (o *getOptions) complete(g *Globals) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
		if len(args) == 0 {
			return kinds, cobra.ShellCompDirectiveNoFileComp
		}
		return g.complete(namesOfKind(kindOf(args[0]), &o.group))(cmd, args, typed)
	}
}

// kindOf is the list that the word means, in the singular and short forms too; empty for none.
func kindOf(word string) string {
	for _, kind := range kinds {
		if word = strings.ToLower(word); word == kind || word+"s" == kind {
			return kind
		}
	}
	return ""
}

func (o getOptions) get(g *Globals, cmd *cobra.Command, kind string, names []string) error {
	if err := o.check(g, kind); err != nil {
		return err
	}
	replica, err := g.Client(cmd.Context())
	if err != nil {
		return err
	}
	r := request{
		globals: g, client: replica, options: o, output: &o.output, names: names,
		filter: client.Filter{
			Group: o.group, Selector: o.selector, State: o.state, Kind: o.kind,
			Since: o.since.from(g.now()),
		},
		out: cmd.OutOrStdout(), note: cmd.ErrOrStderr(),
	}
	if kind == "events" {
		r.filter.Limit = o.limit
	}
	if kind == "runs" {
		err = r.runs(cmd.Context())
	} else {
		err = lists[kind].get(cmd.Context(), &r)
	}
	return g.explain(cmd, replica, err)
}

// ofEvents checks the flags that only events have.
func (o *getOptions) ofEvents(cmd *cobra.Command, kind string) error {
	for _, name := range []string{"since", "limit"} {
		if cmd.Flags().Changed(name) && kind != "events" {
			return usage("--%s is of events: `shardctl get events --%s`", name, name)
		}
	}
	switch {
	case o.limit < 1:
		return usage("--limit %d: want 1 or more", o.limit)
	case o.watch && cmd.Flags().Changed("limit"):
		return usage("--limit does not go with -w, which shows all that comes")
	default:
		return nil
	}
}

func (o *getOptions) check(g *Globals, kind string) error {
	if o.selector != "" {
		if kind != "tasks" && kind != "instances" && kind != "overrides" {
			return usage("-l selects by labels, which %s do not have", kind)
		}
		if _, err := snapshot.ParseSelector(o.selector); err != nil {
			return usage("-l: %w", err)
		}
	}
	if o.kind != "" && kind != "locks" {
		return usage("--kind is of locks: `shardctl get locks --kind %s`", o.kind)
	}
	if kind == "runs" && o.watch {
		return usage("-w does not go with runs; watch the events: `shardctl get events -w`")
	}
	if o.watch && g.isOffline() {
		return usage("-w needs a replica to watch; leave out --config")
	}
	if kind == "events" && g.isOffline() && g.Past == nil {
		return usage("events are read from a replica; leave out --config")
	}
	if kind == "instances" && o.output.format == formatWide && o.state == "" {
		o.state = strings.Join(texts(api.InstanceStates()), ",")
	}
	if o.watch && o.output.format == formatYAML {
		return usage("-w goes with -o table, wide, json, name or jsonpath")
	}
	if o.watch && o.sortBy != "" {
		return usage("--sort-by does not go with -w, which shows changes in the order in which they come")
	}
	return nil
}

// request is one get, under way.
type request struct {
	globals   *Globals
	client    *client.Client
	options   getOptions
	output    *Output
	names     []string
	filter    client.Filter
	out, note io.Writer
}

// texts are words of a type of their own as texts.
func texts[T ~string](words []T) []string {
	list := make([]string, len(words))
	for i, word := range words {
		list[i] = string(word)
	}
	return list
}

// runs lists the last runs of the tasks that are named.
func (r *request) runs(ctx context.Context) error {
	if len(r.names) == 0 {
		return usage("runs are of a task: shardctl get runs GROUP/NAME")
	}
	w, err := wantTasks(r.names, r.options.group)
	if err != nil {
		return err
	}
	out := lister[api.Run]{
		request: r, wanted: w, resource: resource[api.Run]{
			kind: "runs", columns: runColumns(), name: func(run *api.Run) string { return run.ScheduledAt.String() },
		},
		printer: newPrinter(runColumns(), r.output.format == formatWide, !r.options.noHeaders),
	}
	var all []api.Run
	for _, key := range w.args {
		group, name, _ := strings.Cut(key, "/")
		runs, err := r.client.Tasks().Runs(ctx, group, name)
		if err != nil {
			return err
		}
		all = append(all, runs...)
		w.match(key)
	}
	if r.options.sortBy != "" {
		if err := sortBy(all, r.options.sortBy); err != nil {
			return err
		}
	}
	if r.output.whole() {
		return r.output.Write(r.out, api.List[api.Run]{Items: all, Stale: r.globals.stale.heard.Load()})
	}
	return out.rows(all)
}

// get implements [list].
func (res resource[T]) get(ctx context.Context, r *request) error {
	w, err := res.wanted(r.names, r.options.group)
	if err != nil {
		return err
	}
	out := lister[T]{
		request: r, resource: res, wanted: w,
		printer: newPrinter(res.columns, r.output.format == formatWide, !r.options.noHeaders),
	}
	if w.narrow(&r.filter); res.kind == "events" {
		r.filter.Names = w.args // with a limit, the newest of all would not do
	}
	if r.options.watch {
		return out.follow(ctx)
	}
	list := res.of(r.client).List
	if res.list != nil {
		list = func(ctx context.Context, f client.Filter) ([]T, error) { return res.list(ctx, r.client, f, w) }
	}
	items, err := list(ctx, r.filter)
	if err != nil {
		return err
	}
	items = out.keep(items)
	if r.options.sortBy != "" {
		if err := sortBy(items, r.options.sortBy); err != nil {
			return err
		}
	}
	if err := out.write(items); err != nil {
		return err
	}
	missing := w.missing()
	switch {
	case len(missing) == 0 || res.kind == "events":
		return nil
	case len(missing) == 1:
		names, _ := namesOfKind(res.kind, new(string))(ctx, r.client) // without them nothing is suggested
		if near := decode.Nearest(missing[0], names); near != "" {
			return fmt.Errorf("no %s with the name %s; did you mean %s?", res.kind, missing[0], near)
		}
	}
	return fmt.Errorf("no %s with the name %s; `shardctl get %s` lists those there are",
		res.kind, strings.Join(missing, ", "), res.kind)
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
	stale := l.globals.stale.heard.Load()
	var v any = api.List[T]{Items: items, Stale: stale}
	if l.wanted.single() && len(items) == 1 && l.resource.kind != "events" {
		v = api.One[T]{Item: items[0], Stale: stale}
	}
	if l.output.whole() {
		return l.output.Write(l.out, v)
	}
	return l.rows(items)
}

// rows writes items for people, or by name alone.
func (l *lister[T]) rows(items []T) error {
	if l.output.format == formatName {
		for i := range items {
			if _, err := fmt.Fprintln(l.out, Printable(l.resource.name(&items[i]))); err != nil {
				return err
			}
		}
		return nil
	}
	if len(items) == 0 {
		if len(l.wanted.missing()) > 0 && l.resource.kind != "events" {
			return nil // said as an error
		}
		where := ""
		if l.options.group != "" {
			where = " in group " + Printable(l.options.group)
		}
		_, err := fmt.Fprintf(l.note, "No %s found%s.\n", l.resource.kind, where)
		return err
	}
	return l.printer.print(l.out, l.globals.surface(l.out), items)
}
