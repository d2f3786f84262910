package program

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/shardctl/shardctl/internal/cli"
	"github.com/shardctl/shardctl/internal/lockcommand"
)

// execute runs a command line and returns what it printed and its exit code. Errors of a configuration go to the
// process's standard error.
func execute(t *testing.T, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	got := executeRoot(t, rootCommand(), args...)
	return got.stdout, got.stderr, got.code
}

type outcome struct {
	stdout, stderr string
	code           int
}

func executeRoot(t *testing.T, root *cobra.Command, args ...string) outcome {
	t.Helper()
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	before := os.Stderr
	os.Stderr = write
	defer func() { os.Stderr = before }()
	var out, errs bytes.Buffer
	root.SetArgs(append([]string{}, args...)) // nil would mean those of this process
	root.SetOut(&out)
	root.SetErr(&errs)
	code := cli.Report(&errs, root.ExecuteContext(t.Context()))
	if err := write.Close(); err != nil {
		t.Fatal(err)
	}
	var reported bytes.Buffer
	if _, err := reported.ReadFrom(read); err != nil {
		t.Fatal(err)
	}
	return outcome{out.String(), reported.String() + errs.String(), code}
}

func writeConfig(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "a.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestUsageErrors(t *testing.T) {
	good := writeConfig(t, "version: 1\nstore: {uri: \"sqlite:x.db\"}\n")
	missing := filepath.Join(t.TempDir(), "none.yaml")
	for _, test := range []struct {
		args string
		want string // on standard error, one line
	}{
		{"frob", `error: there is no command "frob"; see shardctl --help`},
		{"completion bsh", `error: there is no command "bsh"; did you mean bash or zsh or fish?`},
		{"validat", `error: there is no command "validat"; did you mean validate?`},
		{"--nope", `error: unknown flag: --nope; see shardctl --help`},
		{"run", `error: --config: required, a file or a directory`},
		{"run --config x --wait-store -3s", `error: --wait-store -3s: must not be negative`},
		{"validate", `error: name a file or a directory, or - for standard input; see shardctl validate --help`},
		{"validate " + missing, missing + `: cannot be read: no such file or directory`},
		{"plan " + good, `error: --replicas 0: required, 1 to 10000`},
		{"plan " + good + " --replicas 3 --lose 4", `error: --lose 4: want 0 to 3, the number of replicas`},
		{"plan " + good + " --replicas 3 -o xml", `error: -o "xml": want table, json, yaml or jsonpath=TEMPLATE`},
		{"run --confg x", `error: unknown flag: --confg; did you mean --config?`},
		{
			"run --config x --wait-store 10",
			`error: invalid argument "10" for "--wait-store" flag: add a unit: 10s; see shardctl run --help`,
		},
		{"version x", `error: unknown command "x" for "shardctl version"; see shardctl version --help`},
		{"get tasks --config " + missing, missing + `: cannot be read: no such file or directory`},
		{"get frobs", `error: get frobs: there is no such thing; say what: tasks, instances, groups, events, locks, owners, overrides, problems or runs; see shardctl get --help`},
		{"wait --for=rich", `error: --for "rich": want balanced, running or done`},
	} {
		stdout, stderr, code := execute(t, strings.Fields(test.args)...)
		if code != cli.CodeUsage || stderr != test.want+"\n" || stdout != "" {
			t.Errorf(
				"%s: code %d, stdout %q, stderr\n%s\nwant code 2 and\n%s", test.args, code, stdout, stderr, test.want,
			)
		}
	}
}

func TestConfigurationErrorsAreReportedOnceEach(t *testing.T) {
	path := writeConfig(t, "version: 1\nstore: {uri: \"sqlite:x.db\"}\ncolour: red\ngroups: [{name: a, cap: -1}]\n")
	for command, want := range map[string]int{
		"validate": cli.CodeUsage, "run --config": cli.CodeConfig, "plan --replicas 2": cli.CodeUsage,
	} {
		args := append(strings.Fields(command), path)
		_, stderr, code := execute(t, args...)
		lines := strings.Split(strings.TrimSpace(stderr), "\n")
		if code != want || len(lines) != 2 ||
			!strings.HasPrefix(lines[0], path+":3:1: colour: ") || !strings.HasPrefix(lines[1], path+":4:") {
			t.Errorf("%v: code %d:\n%s", args, code, stderr)
		}
	}
}

func TestNothingSaidIsHelp(t *testing.T) {
	stdout, stderr, code := execute(t)
	if code != 0 || stderr != "" || !strings.Contains(stdout, "shardctl dev") {
		t.Errorf("code %d, stdout %s, stderr %s", code, stdout, stderr)
	}
}

func TestVersion(t *testing.T) {
	stdout, _, code := execute(t, "version")
	if code != 0 || !strings.HasPrefix(stdout, "shardctl "+options.Version+" (revision ") {
		t.Errorf("code %d: %s", code, stdout)
	}
	if flag, _, code := execute(t, "--version"); code != 0 || flag != stdout {
		t.Errorf("--version: code %d: %s", code, flag)
	}
	text, _, code := execute(t, "version", "-o", "json")
	var got map[string]string
	if err := json.Unmarshal([]byte(text), &got); err != nil || code != 0 || got["version"] != options.Version {
		t.Errorf("-o json: code %d, %v: %s", code, err, text)
	}
	if text, _, code := execute(t, "version", "-o", "jsonpath=.version"); code != 0 || text != options.Version+"\n" {
		t.Errorf("-o jsonpath: code %d: %s", code, text)
	}
}

// TestValidateReadsStandardInput holds that - is what comes in, and that errors say where in it they are.
func TestValidateReadsStandardInput(t *testing.T) {
	for text, want := range map[string]outcome{
		"version: 1\nstore: {uri: \"sqlite:x.db\"}\n": {"ok: 0 tasks in 0 groups\n", "", 0},
		"version: 1\nlease: {duration: 20}\nstore: {uri: \"sqlite:x.db\"}\n": {
			"", "<stdin>:2:19: lease.duration: is \"20\", add a unit: 20s\n", cli.CodeUsage,
		},
	} {
		root := rootCommand()
		root.SetIn(strings.NewReader(text))
		if got := executeRoot(t, root, "validate", "-"); got != want {
			t.Errorf("%s: got %+v, want %+v", text, got, want)
		}
	}
}

// TestValidateWarns holds that a warning is no error.
func TestValidateWarns(t *testing.T) {
	path := writeConfig(t, `store: {uri: "sqlite:x.db"}
groups:
  - name: g
    discover: {file: {path: names}}
    template: {exec: {command: [sh, -c, "echo $(DISCOVERED_NAME)"]}}
`)
	stdout, stderr, code := execute(t, "validate", path)
	if want := "warning: " + path + ":5:41: groups[0].template.exec.command[2]: "; code != 0 ||
		!strings.HasPrefix(stdout, "ok: ") || !strings.HasPrefix(stderr, want) || strings.Count(stderr, "\n") != 1 {
		t.Errorf("code %d, stdout %s, stderr %s; want %s…", code, stdout, stderr, want)
	}
}

// TestEachCommandHasExamples holds that the help of a command shows how it is used.
func TestEachCommandHasExamples(t *testing.T) {
	root := rootCommand()
	for _, cmd := range append(root.Commands(), root) {
		if cmd.Example == "" && cmd.Name() != "help" && cmd.Name() != "completion" {
			t.Errorf("%s has none", cmd.CommandPath())
		}
	}
}

// TestExitCodes holds that commands that ask neither a replica nor a store end with 0 when it is done, with 1 when the
// answer is no, and with 2 when the command line or a configuration is wrong; run has another code for the latter.
// Package cli has such a test of the others.
func TestExitCodes(t *testing.T) {
	good := writeConfig(t, `
version: 1
store: {uri: "sqlite:x.db"}
groups: [{name: g, cap: 2, tasks: [{name: "t{1..4}", exec: {command: [date]}}]}]
`)
	bad := writeConfig(t, "version: 2\n")
	for line, want := range map[string]int{
		"":                               0,
		"--help":                         0,
		"--version":                      0,
		"version":                        0,
		"completion bash":                0,
		"validate " + good:               0,
		"plan " + good + " --replicas 3": 0,
		"plan " + good + " --replicas 1": cli.CodeNo,
		"plan " + good + " --replicas=2 -o json --lose 1": cli.CodeNo,
		"frob":                              cli.CodeUsage,
		"version now":                       cli.CodeUsage,
		"version -o xml":                    cli.CodeUsage,
		"validate":                          cli.CodeUsage,
		"validate " + bad:                   cli.CodeUsage,
		"plan " + bad + " --replicas 2":     cli.CodeUsage,
		"plan " + good:                      cli.CodeUsage,
		"run":                               cli.CodeUsage,
		"run --config " + bad:               cli.CodeConfig,
		"run --until-done --config " + good: cli.CodeConfig,
		"dev --replicas 0":                  cli.CodeUsage,
		"dev --tasks many":                  cli.CodeUsage,
		"status --config " + bad:            cli.CodeUsage,
		"drain a --config " + bad:           cli.CodeUsage,
		"pause -g g --config " + bad:        cli.CodeUsage,
		"completion powershell --frob":      cli.CodeUsage,
	} {
		stdout, stderr, code := execute(t, strings.Fields(line)...)
		if code != want || (stderr == "") != (want == 0) {
			t.Errorf("%s: code %d, want %d\n%s%s", line, code, want, stdout, stderr)
		}
	}
	var names []string
	for _, cmd := range rootCommand().Commands() {
		names = append(names, cmd.Name())
	}
	for _, name := range []string{"run", "dev", "validate", "plan", "version"} {
		if !slices.Contains(names, name) {
			t.Errorf("there is no command %s: this test is out of date", name)
		}
	}
}

// An error of the command line names the flag, its value and what is allowed, and nothing is started.
func TestLockUsage(t *testing.T) {
	t.Setenv(envStoreURI, "")
	uri := "sqlite:" + filepath.Join(t.TempDir(), "none", "a.db")
	good := writeConfig(t, "version: 1\nstore: {uri: \"sqlite:x.db\"}\n")
	bad := writeConfig(t, "version: 2\nstore: {uri: \"sqlite:x.db\"}\n")
	for _, test := range []struct{ args, want string }{
		{"lock", `error: KEY: required, before --; see shardctl lock --help`},
		{"lock -- true", `error: KEY: required, before --; see shardctl lock --help`},
		{"lock k", `error: COMMAND: required, after --: shardctl lock "k" -- COMMAND`},
		{"lock k true", `error: COMMAND: required, after --: shardctl lock "k" -- COMMAND`},
		{"lock k --", `error: COMMAND: required, after --, and not empty`},
		{"lock k l -- true", `error: "l": only KEY stands before --; see shardctl lock --help`},
		{
			"lock " + strings.Repeat("k", 513) + " -- true",
			`error: KEY: name: 513 bytes: at most 512 are allowed: document too large`,
		},
		{"lock k -- true", `error: --store: required, or --config, or SHARDCTL_STORE_URI in the environment`},
		{"lock k --store nope:x -- true", `error: the store's uri `},
		{"lock k --config " + good + " --store x -- true", `error: --store: does not go with --config, which says it`},
		{"lock k --config " + good + " --lease 5s -- true", `error: --lease: does not go with --config, which says it`},
		{"lock k --config " + bad + " -- true", bad + `:1:10: version: is "2"`},
		{"lock k --lease 10ms -- true", `error: --lease 10ms: want 1s to 24h`},
		{"lock k -w -1 -- true", `error: --timeout -1s: must not be negative`},
		{
			"lock k -w soon -- true",
			`error: invalid argument "soon" for "-w, --timeout" flag: want seconds such as 10 or 0.5, or a duration such ` +
				`as 500ms, 20s or 5m; see shardctl lock --help`,
		},
		{"lock k -n -w 1 -- true", `error: --timeout: does not go with --nonblock, which does not wait`},
		{"lock k -E 256 -- true", `error: --conflict-exit-code 256: want 0 to 255`},
		{"lock k --max-hold -1s -- true", `error: --max-hold -1s: must not be negative`},
		{"lock k --hold-at-least -1s -- true", `error: --hold-at-least -1s: must not be negative`},
		{
			"lock k --hold-at-least 1s -s -- true",
			`error: --hold-at-least: does not go with --shared: only a holder that is alone can keep others out`,
		},
		{"lock k --timeot 1 -- true", `error: unknown flag: --timeot; did you mean --timeout?`},
	} {
		args := strings.Fields(test.args)
		if !strings.Contains(test.args, "--store") && !strings.Contains(test.args, "--config") &&
			test.args != "lock k -- true" {
			args = append([]string{"lock", "--store", uri}, args[1:]...)
		}
		stdout, stderr, code := execute(t, args...)
		if code != lockcommand.CodeUsage || !strings.HasPrefix(stderr, test.want) || strings.Count(stderr, "\n") != 1 ||
			stdout != "" {
			t.Errorf("%s: code %d, want 64\n%swant\n%s", test.args, code, stderr, test.want)
		}
	}
}
