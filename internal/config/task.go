package config

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/shardctl/shardctl/internal/decode"
	"github.com/shardctl/shardctl/internal/field"
	"github.com/shardctl/shardctl/internal/kind"
	"github.com/shardctl/shardctl/internal/settings"
	"github.com/shardctl/shardctl/internal/variables"
	"github.com/shardctl/shardctl/pkg/tasks"
	"github.com/shardctl/shardctl/pkg/tasks/schedule"
)

// taskReader builds tasks out of nodes.
type taskReader struct {
	fieldReader
	settings *settings.Settings // of the replica
}

// tasks builds the tasks that one node makes, once for all its names where they share every field.
func (l taskReader) tasks(n *decode.Node, made names, group string) []tasks.Task {
	warnOfBody(&l.Problems, n)
	if len(made.all) == 0 { // the name is wrong: the rest is checked all the same
		l.Scope, l.AtStart = l.scope(l.valuesOf(group, "x", "0")), nil
		l.task(n)
		return nil
	}
	var built []tasks.Task
	var shared tasks.Task
	each := variesByName(n)
	for i, name := range made.all {
		index := ""
		if made.numbered {
			index = strconv.Itoa(i)
		}
		if i == 0 || each {
			l.Scope = l.scope(l.valuesOf(group, name, index))
			l.AtStart = l.atStart(made.numbered, ticks(n), false)
			shared = l.task(n)
		}
		t := shared
		t.Group, t.Name, t.Index = group, name, index
		built = append(built, t)
	}
	return built
}

// valuesOf are those of a task's own variables that are known when it is read.
func (l taskReader) valuesOf(group, name, index string) variables.Values {
	return variables.Values{
		Group: group, Name: name, Key: group + "/" + name, Index: index, Instance: l.settings.Instance,
	}
}

// scope finds the variables that are known when a task is read, and the environment's.
func (l taskReader) scope(of variables.Values) decode.Lookup {
	set := of.Set()
	return func(name string) (string, bool) {
		if value, ok := set[name]; ok || variables.IsOwn(name) {
			return value, ok
		}
		return l.opts.Env(name)
	}
}

// atStart finds the variables that will be set when a task starts.
func (l taskReader) atStart(numbered, ticks, discovered bool) decode.Lookup {
	have := map[variables.Tasks]bool{
		"": true, variables.Numbered: numbered, variables.Ticked: ticks, variables.Discovered: discovered,
	}
	return func(name string) (string, bool) {
		if own, is := variables.OwnOf(name); is {
			return "", have[own.Of]
		}
		return l.opts.Env(name)
	}
}

// variesByName says whether a field that is read now holds one of the task's own variables.
func variesByName(n *decode.Node) bool {
	varies := false
	for _, e := range n.Entries {
		if e.Name != "name" {
			e.Value.Scalars(func(n *decode.Node) { varies = varies || !n.Settled })
		}
	}
	return varies
}

// task reads all fields but the name, and fills in what is left out.
func (l taskReader) task(n *decode.Node) tasks.Task {
	var t tasks.Task
	kind.FieldsOf(&t, nil, nil).Read(n, l.Reader)
	l.checkBackoff(n.Get("backoff"), t.Backoff)
	l.checkBackoff(n.At("retry", "backoff"), t.Retry.Backoff)
	k := kindOf(l.opts.Kinds, n)
	l.triggers(n, k)
	if k == nil {
		l.addNotOne(n)
		return t.WithDefaults()
	}
	runs := n.Get(k.Name())
	var runner kind.Runner
	if more, ok := k.(kind.TaskKind); ok {
		runs, runner, t.Retry = n, more.ParseTask(n, l.Reader), tasks.Retry{}
	} else {
		runner = k.Parse(runs, l.Reader)
	}
	t.Runner = runner
	l.AddFieldErrors(runs,
		runner.Validate(kind.Use{Ticks: ticks(n), Lease: l.settings.Lease.Duration, Callbacks: l.opts.Callbacks}))
	return t.WithDefaults()
}

// addNotOne says that a task has not exactly one of the kinds.
func (l taskReader) addNotOne(n *decode.Node) {
	names := l.opts.Kinds.Names()
	has := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return n.Get(name) == nil })
	switch {
	case n.Bad:
	case len(has) == 0:
		l.AddAt(n.Place, n.Field(), "has nothing to run, must have exactly one of %s", strings.Join(names, ", "))
	default:
		l.AddAt(n.Place, n.Field(), "has %s, must have exactly one of %s", strings.Join(has, " and "),
			strings.Join(names, ", "))
	}
}

// checkBackoff refuses a first delay that is longer than the longest.
func (l taskReader) checkBackoff(n *decode.Node, is tasks.Backoff) {
	switch {
	case is.Initial <= is.Max:
	case n.Get("max") != nil:
		l.Refuse(n.Get("max"), "at least initial, "+decode.Short(is.Initial))
	case n.Get("initial") != nil:
		l.Refuse(n.Get("initial"), "at most max, "+decode.Short(is.Max))
	}
}

// triggers refuses fields that do not go with the task, and reads schedules.
func (l taskReader) triggers(n *decode.Node, k kind.Kind) {
	schedule, every := n.Get("schedule"), n.Get("every")
	ticks := schedule != nil || every != nil
	if schedule != nil && every != nil {
		l.AddAt(every.Place, every.Field(), "is set together with schedule: a task has one of them, or neither")
	}
	for _, name := range misplaced(l.opts.Kinds, k, ticks, schedule != nil) {
		if field := n.Get(name); field != nil && !field.Bad {
			l.Add(field, "%s", whyMisplaced(name, k, ticks))
		}
	}
	if letter := n.At("retry", "deadLetter"); letter != nil && slices.Contains(goingWith(k, ticks), "retry") {
		if _, subscription := k.(kind.TaskKind); !subscription {
			l.Add(letter, "goes with subscriptions only")
		}
	}
	if window := n.Get("catchUpWindow"); window != nil && !window.Bad && neverCatchesUp(n) {
		l.Add(window, "does nothing with catchUp: none, leave one of them out")
	}
	if every != nil && !every.Bad {
		if d := l.Duration(every, time.Second); d%time.Millisecond != 0 {
			l.Refuse(every, "whole milliseconds")
		}
	}
	if schedule != nil {
		l.schedule(schedule, n.Get("timeZone"))
	}
}

func whyMisplaced(name string, k kind.Kind, ticks bool) string {
	goes := kind.FieldsOfWork()
	if k != nil {
		goes = k.Fields()
	}
	switch {
	case name == "timeZone":
		return "goes with schedule only"
	case ticks && slices.Contains(goes.Owned, name):
		return "goes with neither schedule nor every: a task that is fired at ticks has retry instead"
	case !ticks && slices.Contains(goes.Ticked, name):
		return "goes with schedule or every only"
	default:
		return "does not go with " + k.Name()
	}
}

func (l taskReader) schedule(n, timeZone *decode.Node) {
	zone := l.Text(timeZone, "")
	if _, err := schedule.Parse("@daily", zone); err != nil {
		l.Refuse(timeZone, "a name of the IANA database such as Europe/Berlin, or UTC")
		zone = ""
	}
	expr, ok := l.Value(n)
	if !ok {
		return
	}
	if _, err := schedule.Parse(expr, zone); err != nil {
		if n.HasVariables() {
			l.Refuse(n,
				"five fields (minute, hour, day, month, day of the week) or @hourly @daily @weekly @monthly @yearly")
			return
		}
		what := strings.TrimPrefix(err.Error(), "schedule "+strconv.Quote(expr)+": ")
		l.Add(n, "is %s: %s", n.Quoted(), what)
	}
}

// taskWritten is what of a task came from outside; what it runs stays as it is written anyway.
func taskWritten(kinds *kind.Set[kind.Kind], n *decode.Node) written {
	var w written
	for _, e := range n.Entries {
		if _, runs := kinds.Lookup(e.Name); e.Name == "name" || runs && e.Value.Shape != decode.Scalar {
			continue
		}
		if w == nil {
			w = written{}
		}
		w.note(e.Name, e.Value)
	}
	if len(w) == 0 {
		return nil
	}
	return w
}

// fieldsOf are the fields that go with the task, so that what is printed is a configuration as well.
func fieldsOf(t tasks.Task, use kind.Use) decode.Fields {
	var more decode.Fields
	work, with := any(t.Kind()), field.Owned
	if runner, ok := t.Runner.(kind.Runner); ok {
		work = runner.Print(use)
	}
	if t.Ticks() {
		with = field.Ticked
	}
	if runner, ok := t.Runner.(kind.TaskRunner); ok { // which has fields of its own in place of those
		with, more = field.Any, runner.PrintTask(use)
	}
	runs := field.List{{Name: t.Kind(), Value: field.Elsewhere{Shows: work}}}
	return slices.Concat(decode.Pairs("name", t.Name), kind.FieldsOf(&t, runs, nil).For(with).Print(), more)
}
