package config

import (
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/shardctl/shardctl/internal/decode"
	"github.com/shardctl/shardctl/internal/kind"
	"github.com/shardctl/shardctl/internal/settings"
	"github.com/shardctl/shardctl/internal/variables"
	"github.com/shardctl/shardctl/pkg/tasks"
	"github.com/shardctl/shardctl/pkg/tasks/schedule"
)

// tasks builds the tasks that one node makes, once for all its names where they share every field.
func (l *listReader) tasks(n *decode.Node, made names, group string, s *settings.Settings) []tasks.Task {
	l.warnOfBody(n)
	if len(made.all) == 0 { // the name is wrong: the rest is checked all the same
		l.Scope, l.AtStart = l.scope(valuesOf(group, "x", "0", s)), nil
		l.task(n, s)
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
			l.Scope = l.scope(valuesOf(group, name, index, s))
			l.AtStart = l.atStart(made.numbered, ticks(n), false)
			shared = l.task(n, s)
		}
		t := shared
		t.Group, t.Name, t.Index = group, name, index
		built = append(built, t)
	}
	return built
}

// valuesOf are those of a task's own variables that are known when it is read.
func valuesOf(group, name, index string, s *settings.Settings) variables.Values {
	return variables.Values{Group: group, Name: name, Key: group + "/" + name, Index: index, Instance: s.Instance}
}

// scope finds the variables that are known when a task is read, and the environment's.
func (l *listReader) scope(of variables.Values) decode.Lookup {
	set := of.Set()
	return func(name string) (string, bool) {
		if value, ok := set[name]; ok || variables.IsOwn(name) {
			return value, ok
		}
		return l.opts.Env(name)
	}
}

// atStart finds the variables that will be set when a task starts.
func (l *listReader) atStart(numbered, ticks, discovered bool) decode.Lookup {
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
func (l *listReader) task(n *decode.Node, s *settings.Settings) tasks.Task {
	var t tasks.Task
	kind.FieldsOf(&t, nil, nil).Read(n, l.Reader)
	l.checkBackoff(n.Get("backoff"), t.Backoff)
	l.checkBackoff(n.At("retry", "backoff"), t.Retry.Backoff)
	k := l.kindOf(n)
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
		runner.Validate(kind.Use{Ticks: ticks(n), Lease: s.Lease.Duration, Callbacks: l.opts.Callbacks}))
	return t.WithDefaults()
}

// ticks says whether a task is fired at ticks.
func ticks(task *decode.Node) bool { return task.Get("schedule") != nil || task.Get("every") != nil }

// warnOfBody warns of the body of a tick's request that differs after a fail-over: its Idempotency-Key is the same, and
// who compares bodies, as the draft of that header wants, refuses the second one.
func (l *listReader) warnOfBody(task *decode.Node) {
	if !ticks(task) {
		return
	}
	warn := func(n *decode.Node) {
		for _, name := range []string{variables.FencingToken, variables.Instance, variables.Session} {
			if n.Uses(name) {
				l.Warn(n, "holds $(%s), which changes when another replica repeats a tick under the same Idempotency-Key, "+
					"and a receiver may refuse another body: leave it out, headers have the token and the instance", name)
			}
		}
	}
	task.At("http", "body").Scalars(warn)
	task.At("http", "json").Scalars(warn)
}

// warnOfJSON warns of a name that somebody else gave in JSON that is written as a text: one with a quotation mark in it
// may add fields.
func (l *listReader) warnOfJSON(task *decode.Node) {
	body := task.At("http", "body")
	if body == nil || !strings.HasPrefix(strings.TrimSpace(body.Raw), "{") || !body.Uses(variables.DiscoveredName) {
		return
	}
	l.Warn(body, "puts $(DISCOVERED_NAME) into JSON as it is, and a name with a quotation mark changes what that says: "+
		"write the fields under http.json, where each text is encoded")
}

// addNotOne says that a task has not exactly one of the kinds.
func (l *listReader) addNotOne(n *decode.Node) {
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
func (l *listReader) checkBackoff(n *decode.Node, is tasks.Backoff) {
	switch {
	case is.Initial <= is.Max:
	case n.Get("max") != nil:
		l.Refuse(n.Get("max"), "at least initial, "+decode.Short(is.Initial))
	case n.Get("initial") != nil:
		l.Refuse(n.Get("initial"), "at most max, "+decode.Short(is.Max))
	}
}

// triggers refuses fields that do not go with the task, and reads schedules.
func (l *listReader) triggers(n *decode.Node, k kind.Kind) {
	schedule, every := n.Get("schedule"), n.Get("every")
	ticks := schedule != nil || every != nil
	if schedule != nil && every != nil {
		l.AddAt(every.Place, every.Field(), "is set together with schedule: a task has one of them, or neither")
	}
	for _, name := range l.misplaced(k, ticks, schedule != nil) {
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

func (l *listReader) schedule(n, timeZone *decode.Node) {
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

var shells = []string{"sh", "ash", "bash", "dash", "ksh", "mksh", "zsh", "fish"}

// isScript says of an option of a shell that the script follows.
var isScript = regexp.MustCompile(`^-[a-zA-Z]*c[a-zA-Z]*$`)

// warnOfShell warns of a name that somebody else gave and that a shell reads as a part of its script: a topic, or a
// line of a list, could then hold commands.
func (l *listReader) warnOfShell(task *decode.Node) {
	for _, command := range []*decode.Node{task.At("exec", "command"), task.At("deliver", "exec", "command")} {
		script := shellScript(command.List())
		if script != nil && strings.Contains(script.Raw, "$(DISCOVERED_NAME") {
			l.Warn(script,
				"puts $(DISCOVERED_NAME) into a shell's script, and a name that holds shell syntax is executed: "+
					`write "$DISCOVERED_NAME" there, which is in the environment, or make it an argument after the script`)
		}
		l.warnOfCode(command.List())
	}
}

// interpreter is a program that reads code from its command line.
type interpreter struct {
	names   string // of the program, without a version
	options string // whose argument is code, or the rest of the same word; letters may be joined, as in -ne
	first   bool   // the first argument that is no option is code
	after   bool   // all arguments after that are: another shell reads them
	skips   string // options with an argument that is no code
	mixed   bool   // options may follow other arguments
}

var interpreters = []interpreter{
	{names: "python pypy", options: "-c"},
	{names: "perl", options: "-e -E"},
	{names: "ruby", options: "-e"},
	{names: "node nodejs bun", options: "-e -p --eval --print"},
	{names: "php", options: "-r"},
	{names: "lua luajit Rscript", options: "-e"},
	{names: "pwsh powershell", options: "-c -Command"},
	{names: "psql", options: "-c --command", mixed: true},
	{names: "mysql mariadb", options: "-e --execute", mixed: true},
	{names: "mongosh mongo", options: "--eval", mixed: true},
	{names: "su", options: "-c --command", mixed: true},
	{names: "sed", options: "-e --expression", first: true, skips: "-f --file"},
	{names: "awk gawk mawk nawk jq", first: true, skips: "-v -F -f --arg --argjson"},
	{names: "eval", first: true},
	{names: "ssh", after: true, skips: "-i -l -o -p -F -J"},
}

// warnOfCode warns of a name that somebody else gave in code that another interpreter than a shell reads.
func (l *listReader) warnOfCode(command []*decode.Node) {
	for i, program := range command {
		name := strings.TrimRight(path.Base(program.Raw), "0123456789.")
		for _, in := range interpreters {
			if !slices.Contains(strings.Fields(in.names), name) {
				continue
			}
			for _, code := range in.code(command[i+1:]) {
				if code.Uses(variables.DiscoveredName) {
					l.Warn(code, "puts $(DISCOVERED_NAME) into code that %s reads, and a name that holds code is executed: "+
						"read DISCOVERED_NAME from the environment there, or make it an argument after the code", name)
				}
			}
			return
		}
	}
}

// code are the arguments that the interpreter reads as code.
func (in interpreter) code(args []*decode.Node) (code []*decode.Node) {
	options, skips := strings.Fields(in.options), strings.Fields(in.skips)
	for i := 0; i < len(args); i++ {
		word := args[i].Raw
		switch {
		case slices.ContainsFunc(options, func(option string) bool { return takesNext(word, option) }):
			if i++; i < len(args) {
				code = append(code, args[i])
			}
		case slices.ContainsFunc(options, func(option string) bool { return strings.HasPrefix(word, option) }):
			code = append(code, args[i]) // -eCODE, --eval=CODE
		case slices.Contains(skips, word):
			if i++; strings.HasPrefix(word, "--arg") { // a name and a value
				i++
			}
		case strings.HasPrefix(word, "-"):
		case in.after:
			return append(code, args[i+1:]...)
		case in.first && len(code) == 0:
			return append(code, args[i])
		case in.mixed:
		default:
			return code
		}
	}
	return code
}

// takesNext says whether the argument of the option is the next word: it stands alone, or ends joined letters.
func takesNext(word, option string) bool {
	if strings.HasPrefix(option, "--") || len(option) > 2 {
		return word == option
	}
	return isLetters.MatchString(word) && strings.HasSuffix(word, option[1:])
}

var isLetters = regexp.MustCompile(`^-[a-zA-Z]+$`)

// shellScript is the argument of a command line that a shell takes for its script; nil: there is none. The shell may be
// run by another program, as env or timeout.
func shellScript(command []*decode.Node) *decode.Node {
	i := slices.IndexFunc(command, func(n *decode.Node) bool { return slices.Contains(shells, path.Base(n.Raw)) })
	if i < 0 {
		return nil
	}
	given := false // -c, perhaps among other letters
	for i++; i < len(command); i++ {
		option := command[i].Raw
		switch {
		case !strings.HasPrefix(option, "-") && !strings.HasPrefix(option, "+"):
			if given {
				return command[i]
			}
			return nil // a file
		case strings.HasPrefix(option, "--"):
		case strings.HasSuffix(option, "o"): // the name of an option follows, as in -eo pipefail
			i++
		}
		given = given || isScript.MatchString(option)
	}
	return nil
}
