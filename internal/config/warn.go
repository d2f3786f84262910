package config

import (
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/shardctl/shardctl/internal/decode"
	"github.com/shardctl/shardctl/internal/variables"
)

// warnOfNames warns of what a template does with a name that somebody else gave, and of its body.
func warnOfNames(p *decode.Problems, template *decode.Node) {
	warnOfShell(p, template)
	warnOfBody(p, template)
	warnOfJSON(p, template)
}

// warnOfBody warns of the body of a tick's request that differs after a fail-over: its Idempotency-Key is the same, and
// who compares bodies, as the draft of that header wants, refuses the second one.
func warnOfBody(p *decode.Problems, task *decode.Node) {
	if !ticks(task) {
		return
	}
	warn := func(n *decode.Node) {
		for _, name := range []string{variables.FencingToken, variables.Instance, variables.Session} {
			if n.Uses(name) {
				p.Warn(n, "holds $(%s), which changes when another replica repeats a tick under the same "+
					"Idempotency-Key, and a receiver may refuse another body: leave it out, headers have the token "+
					"and the instance", name)
			}
		}
	}
	task.At("http", "body").Scalars(warn)
	task.At("http", "json").Scalars(warn)
}

// warnOfJSON warns of a name that somebody else gave in JSON that is written as a text: one with a quotation mark in it
// may add fields.
func warnOfJSON(p *decode.Problems, task *decode.Node) {
	body := task.At("http", "body")
	if body == nil || !strings.HasPrefix(strings.TrimSpace(body.Raw), "{") || !body.Uses(variables.DiscoveredName) {
		return
	}
	p.Warn(body, "puts $(DISCOVERED_NAME) into JSON as it is, and a name with a quotation mark changes what that "+
		"says: write the fields under http.json, where each text is encoded")
}

var shells = []string{"sh", "ash", "bash", "dash", "ksh", "mksh", "zsh", "fish"}

// isScript says of an option of a shell that the script follows.
var isScript = regexp.MustCompile(`^-[a-zA-Z]*c[a-zA-Z]*$`)

// warnOfShell warns of a name that somebody else gave and that a shell reads as a part of its script: a topic, or a
// line of a list, could then hold commands.
func warnOfShell(p *decode.Problems, task *decode.Node) {
	for _, command := range []*decode.Node{task.At("exec", "command"), task.At("deliver", "exec", "command")} {
		script := shellScript(command.List())
		if script != nil && strings.Contains(script.Raw, "$(DISCOVERED_NAME") {
			p.Warn(script,
				"puts $(DISCOVERED_NAME) into a shell's script, and a name that holds shell syntax is executed: "+
					`write "$DISCOVERED_NAME" there, which is in the environment, or make it an argument after the `+
					"script")
		}
		warnOfCode(p, command.List())
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
func warnOfCode(p *decode.Problems, command []*decode.Node) {
	for i, program := range command {
		name := strings.TrimRight(path.Base(program.Raw), "0123456789.")
		for _, in := range interpreters {
			if !slices.Contains(strings.Fields(in.names), name) {
				continue
			}
			for _, code := range in.code(command[i+1:]) {
				if code.Uses(variables.DiscoveredName) {
					p.Warn(code, "puts $(DISCOVERED_NAME) into code that %s reads, and a name that holds code is "+
						"executed: read DISCOVERED_NAME from the environment there, or make it an argument after the "+
						"code", name)
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

// ticks says whether a task is fired at ticks.
func ticks(task *decode.Node) bool { return task.Get("schedule") != nil || task.Get("every") != nil }
