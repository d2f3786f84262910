package docs_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/shardctl/shardctl/test/pageblock"
)

// program is what the page of the commands says of each: the page is written from the program (internal/program).
type program map[string]map[string]bool

var (
	commandHeading = regexp.MustCompile(`^## shardctl (\w+)`)
	commandFlag    = regexp.MustCompile("`(--?[A-Za-z-]+)`")
)

func readProgram(t *testing.T) program {
	t.Helper()
	all := program{}
	var flags map[string]bool
	for line := range strings.Lines(read(t, "commands.md")) {
		if m := commandHeading.FindStringSubmatch(line); m != nil {
			if flags = all[m[1]]; flags == nil { // one entry for all commands of store
				flags = map[string]bool{"--help": true, "-h": true}
				all[m[1]] = flags
			}
			continue
		}
		if flags == nil || !strings.HasPrefix(line, "| `-") {
			continue
		}
		cell, _, _ := strings.Cut(line[2:], " | ")
		for _, m := range commandFlag.FindAllStringSubmatch(cell, -1) {
			flags[m[1]] = true
		}
	}
	if len(all) < 5 || !all["run"]["--config"] || !all["get"]["-g"] {
		t.Fatalf("the page of the commands is not understood: %v", all)
	}
	return all
}

// wrong says what is wrong with the arguments of shardctl.
func (p program) wrong(args []string) string {
	if len(args) == 0 || args[0] == "--help" || strings.HasPrefix(args[0], "$") {
		return ""
	}
	flags, known := p[args[0]]
	if !known {
		return "there is no command shardctl " + args[0]
	}
	for _, arg := range args[1:] {
		if arg == "--" {
			break
		}
		name, _, _ := strings.Cut(arg, "=")
		if strings.HasPrefix(name, "-") && name != "-" && !flags[name] {
			return "shardctl " + args[0] + " has no flag " + name
		}
	}
	return ""
}

// others are programs that pages show and this project does not have. What they are given is checked as far as it names
// files here.
var others = []string{
	"git", "cd", "mkdir", "cp", "mv", "rm", "cat", "echo", "export", "sleep", "kill", "wait", "grep", "curl", "jq",
	"install", "useradd", "systemctl", "journalctl", "kubectl", "helm", "kind", "docker", "ctr", "mongosh", "mongodump",
	"mongorestore", "sqlite3", "tail", "sed", "touch", "test", "timeout", "until", "do", "done", "oras", "trivy",
	"grype", "gofmt", "golangci-lint", "promtool", "yq", "python3", "trap", "true", "source", "pip", "npm", "mvn",
	"topics", // the README has it built
}

var (
	assignment = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*=`)
	makeTarget = regexp.MustCompile(`(?m)^([a-z0-9-]+):.*##`)
	makeName   = regexp.MustCompile(`(?m)^([A-Z][A-Z0-9_]*)\s*[?:]?=`)
	ours       = regexp.MustCompile(
		`^(\./)?(clients|cmd|config|docs|examples|helm|image|internal|pkg|test|bench)(/[\w.*/-]*)?$`,
	)
)

// Every command that a page shows can be given: programs, commands, flags, targets and files are there.
func TestCommandsOfPages(t *testing.T) {
	p := readProgram(t)
	makefile := read(t, root+"/Makefile")
	var targets, names []string
	for _, m := range makeTarget.FindAllStringSubmatch(makefile, -1) {
		targets = append(targets, m[1])
	}
	for _, m := range makeName.FindAllStringSubmatch(makefile, -1) {
		names = append(names, m[1])
	}
	checked := 0
	for _, page := range pages(t) {
		for _, f := range pageblock.Blocks(page, read(t, page)) {
			if !f.Shell() || strings.HasPrefix(f.Directive, "file: ") {
				continue
			}
			for _, c := range f.Commands() {
				for _, line := range simple(pageblock.Words(c.Text)) {
					checked++
					for _, what := range judge(p, targets, names, line) {
						t.Errorf("%s:%d: %s: %s", f.Page, f.Line, c.Text, what)
					}
				}
			}
		}
	}
	if checked < 50 {
		t.Errorf("only %d commands were found", checked)
	}
}

// judge says what is wrong with one simple command.
func judge(p program, targets, names, line []string) []string {
	for len(line) > 0 && assignment.MatchString(line[0]) {
		line = line[1:]
	}
	if len(line) == 0 {
		return nil
	}
	var wrong []string
	add := func(text string) {
		if text != "" {
			wrong = append(wrong, text)
		}
	}
	for i, word := range line {
		name, value, valued := strings.Cut(word, "=")
		if valued && strings.HasPrefix(name, "-") {
			word = value
		}
		if ours.MatchString(strings.TrimSuffix(word, "/...")) && (i == 0 || line[0] != "oras") {
			found, err := filepath.Glob(filepath.Join(root, strings.TrimSuffix(word, "/...")))
			if err != nil || len(found) == 0 {
				add("there is no " + word)
			}
		}
	}
	switch program := filepath.Base(line[0]); {
	case program == "shardctl" || program == "sc":
		add(p.wrong(line[1:]))
	case program == "make":
		for _, word := range line[1:] {
			name, _, valued := strings.Cut(word, "=")
			switch {
			case valued && !slices.Contains(names, name):
				add("the Makefile has no variable " + name)
			case !valued && !slices.Contains(targets, word):
				add("the Makefile has no target " + word)
			}
		}
	case program == "go":
		if i := slices.Index(line, "./cmd/shardctl"); i > 0 && slices.Contains(line[:i], "run") {
			add(p.wrong(line[i+1:]))
		}
	case strings.HasSuffix(line[0], "()") || line[0] == "}":
	case !slices.Contains(others, program):
		if _, err := os.Stat(filepath.Join(root, line[0])); err != nil {
			add("nothing is known of the program " + line[0])
		}
	}
	// What is run in a pod or a container.
	if i := slices.Index(line, "/shardctl"); i > 0 {
		add(p.wrong(line[i+1:]))
	}
	return wrong
}

func TestJudgeFindsWhatIsWrong(t *testing.T) {
	p := program{"run": {"--config": true}, "status": {}}
	for text, want := range map[string]int{
		"shardctl run --config a.yaml":                           0,
		"SHARDCTL_STORE_URI=sqlite:x.db shardctl run --confg=x":  1,
		"shardctl drain a":                                       1,
		"go run ./cmd/shardctl frob":                             1,
		"kubectl exec deployment/x -- /shardctl frob":            1,
		"kubectl exec deployment/x -- /shardctl status | grep x": 0,
		"make nothing":               1,
		"make image":                 0,
		"helm install x ./helm/none": 1,
		"cd /tmp && frobnicate":      1,
		"go test ./examples/...":     0,
	} {
		var found []string
		for _, line := range simple(pageblock.Words(text)) {
			found = append(found, judge(p, []string{"image"}, nil, line)...)
		}
		if len(found) != want {
			t.Errorf("%s: %v, want %d", text, found, want)
		}
	}
}

// simple splits the words of a line into simple commands: what stands between pipes, && and semicolons.
func simple(all []string) [][]string {
	var lines [][]string
	var now []string
	for _, w := range append(all, ";") {
		if w == "|" || w == ";" || w == "&" {
			if len(now) > 0 {
				lines = append(lines, now)
			}
			now = nil
			continue
		}
		now = append(now, w)
	}
	return lines
}
