package config

import (
	"strconv"
	"strings"
	"time"

	"github.com/shardctl/shardctl/pkg/tasks"
	"github.com/shardctl/shardctl/pkg/tasks/callback"
	"github.com/shardctl/shardctl/pkg/tasks/exec"
)

// tasks builds the tasks that one node makes, once for all its names where they share every field.
func (l *loader) tasks(n *node, made names, group string, s *Settings) []tasks.Task {
	own := func(name, index string) Lookup {
		vars := map[string]string{
			"SHARDCTL_TASK": name, "SHARDCTL_GROUP": group, "SHARDCTL_KEY": group + "/" + name, "SHARDCTL_INSTANCE": s.Instance,
		}
		if index != "" {
			vars["SHARDCTL_INDEX"] = index
		}
		return func(name string) (string, bool) {
			if value, ok := vars[name]; ok {
				return value, true
			}
			if isOwn(name) {
				return "", false
			}
			return l.env(name)
		}
	}
	if len(made.all) == 0 { // the name is wrong: the rest is checked all the same
		l.scope = own("x", "0")
		l.task(n, s)
		return nil
	}
	var built []tasks.Task
	var shared tasks.Task
	each := variesByName(n)
	for i, name := range made.all {
		index := ""
		if made.braces {
			index = strconv.Itoa(i)
		}
		if i == 0 || each {
			l.scope = own(name, index)
			shared = l.task(n, s)
			l.checkRunner(n, made.braces, shared.Ticks())
		}
		t := shared
		t.Group, t.Name, t.Index = group, name, index
		built = append(built, t)
	}
	return built
}

// variesByName says whether a field that is read now holds one of the task's own variables.
func variesByName(n *node) bool {
	varies := false
	for _, e := range n.entries {
		if e.name != "name" {
			e.value.scalars(func(n *node) { varies = varies || !n.settled })
		}
	}
	return varies
}

// task reads all fields but the name, and fills in what is left out.
func (l *loader) task(n *node, s *Settings) tasks.Task {
	t := tasks.Task{
		Labels:        l.labels(n.get("labels")),
		Weight:        l.count(n.get("weight")),
		Stop:          tasks.Stop{Signal: l.text(n.at("stop", "signal"), "")},
		Restart:       tasks.RestartPolicy(l.text(n.get("restart"), "")),
		Backoff:       l.backoff(n.get("backoff")),
		MaxRestarts:   l.count(n.get("maxRestarts")),
		Schedule:      l.text(n.get("schedule"), ""),
		Every:         l.positive(n.get("every"), 0, ""),
		TimeZone:      l.text(n.get("timeZone"), ""),
		Overlap:       tasks.Overlap(l.text(n.get("overlap"), "")),
		CatchUp:       tasks.CatchUp(l.text(n.get("catchUp"), "")),
		CatchUpWindow: l.positive(n.get("catchUpWindow"), 0, ", or leave it out and set catchUp: none"),
		Timeout:       l.duration(n.get("timeout"), 0),
		Retry: tasks.Retry{
			Attempts: l.count(n.at("retry", "attempts")),
			Backoff:  l.backoff(n.at("retry", "backoff")),
		},
	}
	t.Stop.Timeout = l.positive(n.at("stop", "timeout"), 0, ", or set stop.signal: SIGKILL")
	ticks := n.get("schedule") != nil || n.get("every") != nil
	t.Runner = l.runner(n, ticks, s.Lease.Duration)
	l.oneRunner(n)
	l.triggers(n, ticks)
	return t.WithDefaults()
}

func (l *loader) runner(n *node, ticks bool, lease time.Duration) tasks.Runner {
	switch {
	case n.get("exec") != nil:
		return l.exec(n.get("exec"))
	case n.get("http") != nil:
		return l.http(n.get("http"), ticks, lease)
	default:
		return callback.Runner(l.text(n.get("callback"), ""))
	}
}

func (l *loader) exec(n *node) exec.Runner {
	e := exec.Runner{
		Env: l.texts(n.get("env")),
		Dir: l.text(n.get("dir"), ""),
		Ready: exec.Ready{
			Delay:  l.duration(n.at("ready", "delay"), 0),
			Notify: l.truth(n.at("ready", "notify")),
		},
	}
	command := n.get("command")
	for _, item := range command.list() {
		e.Command = append(e.Command, item.text)
	}
	switch {
	case n.bad || command != nil && command.bad:
	case command == nil:
		l.addAt(n, under(n.field(), "command"), "is required: a list of the program and its arguments")
	case len(e.Command) > 0 && e.Command[0] == "":
		l.add(command.items[0], "is empty, must be a program")
	}
	if delay := n.at("ready", "delay"); e.Ready.Notify && delay != nil {
		l.add(delay, "goes without notify: a task is ready after delay or by notify")
	}
	l.envNames(n.get("env"))
	return e
}

func (l *loader) envNames(n *node) {
	if n == nil {
		return
	}
	for _, e := range n.entries {
		at := &node{file: n.file, line: e.line, col: e.col}
		switch {
		case e.name == "" || strings.ContainsAny(e.name, "=\x00"):
			l.addAt(at, under(n.field(), e.name), "the name of a variable must not be empty or hold =")
		case isOwn(e.name):
			l.addAt(at, under(n.field(), e.name), "is set by shardctl for every task: choose another name")
		}
	}
}

func (l *loader) backoff(n *node) tasks.Backoff {
	b := tasks.Backoff{
		Initial:    l.positive(n.get("initial"), 0, ""),
		Max:        l.positive(n.get("max"), 0, ""),
		ResetAfter: l.positive(n.get("resetAfter"), 0, ""),
	}
	first, most := b.Initial, b.Max
	if first == 0 {
		first = tasks.DefaultBackoffFirst
	}
	if most == 0 {
		most = tasks.DefaultBackoffMax
	}
	switch {
	case first <= most:
	case n.get("max") != nil:
		l.refuse(n.get("max"), "at least initial, "+short(first))
	case n.get("initial") != nil:
		l.refuse(n.get("initial"), "at most max, "+short(most))
	}
	return b
}

// oneRunner holds a task to exactly one of exec, http and callback.
func (l *loader) oneRunner(n *node) {
	var has []string
	for _, name := range runners {
		if n.get(name) != nil {
			has = append(has, name)
		}
	}
	switch {
	case n.bad || len(has) == 1:
		if callback := n.get("callback"); callback != nil && callback.text == "" {
			l.add(callback, "is empty, must be a name registered in Go")
		}
	case len(has) == 0:
		l.addAt(n, n.field(), "has nothing to run, must have exactly one of %s", strings.Join(runners, ", "))
	default:
		l.addAt(n, n.field(), "has %s, must have exactly one of %s", strings.Join(has, " and "), strings.Join(runners, ", "))
	}
}

// triggers holds the fields of tasks with ticks and of those without apart, and reads schedules.
func (l *loader) triggers(n *node, ticks bool) {
	schedule, every := n.get("schedule"), n.get("every")
	if schedule != nil && every != nil {
		l.addAt(every, every.field(), "stands beside schedule: a task has one of them, or neither")
	}
	wrong, why := tickFields, "goes with schedule or every only"
	if ticks {
		wrong, why = restartFields, "goes with neither schedule nor every: a task that is fired at ticks has retry instead"
	}
	for _, name := range wrong {
		if field := n.get(name); field != nil && !field.bad {
			l.add(field, "%s", why)
		}
	}
	if zone := n.get("timeZone"); zone != nil && schedule == nil && !zone.bad {
		l.add(zone, "goes with schedule only")
	}
	if every != nil && !every.bad {
		if d := l.duration(every, time.Second); d%time.Millisecond != 0 {
			l.refuse(every, "whole milliseconds")
		}
	}
	if schedule != nil {
		l.schedule(schedule, n.get("timeZone"))
	}
}

func (l *loader) schedule(n, timeZone *node) {
	zone := l.text(timeZone, "")
	if _, err := tasks.ParseSchedule("@daily", zone); err != nil {
		l.refuse(timeZone, "a name of the IANA database such as Europe/Berlin, or UTC")
		zone = ""
	}
	expr, ok := l.value(n)
	if !ok {
		return
	}
	if _, err := tasks.ParseSchedule(expr, zone); err != nil {
		if strings.Contains(n.raw, "$(") {
			l.refuse(n, "five fields (minute, hour, day, month, day of the week) or @hourly @daily @weekly @monthly @yearly")
			return
		}
		what := strings.TrimPrefix(err.Error(), "schedule "+strconv.Quote(expr)+": ")
		l.add(n, "is %s: %s", n.quoted(), what)
	}
}

// checkRunner tells about variables of exec and http that will not be set when the task starts. Variables that the task's own env sets
// count for its command and dir.
func (l *loader) checkRunner(n *node, braces, ticks bool) {
	base := func(name string) (string, bool) {
		switch {
		case name == "SHARDCTL_INDEX":
			return "", braces
		case name == "SHARDCTL_SCHEDULED_AT":
			return "", ticks
		case isOwn(name):
			return "", true
		default:
			return l.env(name)
		}
	}
	env := n.at("exec", "env")
	inCommand := func(name string) (string, bool) {
		if env.get(name) != nil {
			return "", true
		}
		return base(name)
	}
	check := func(part *node, lookup Lookup) {
		part.scalars(func(n *node) {
			if n.anyText() && !n.bad {
				checkSet(n, lookup, &l.problems)
			}
		})
	}
	check(env, base)
	check(n.at("exec", "command"), inCommand)
	check(n.at("exec", "dir"), inCommand)
	check(n.get("http"), base)
}
