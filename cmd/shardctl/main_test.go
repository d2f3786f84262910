package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/shardctl/shardctl/internal/cli"
)

// execute runs a command line and returns what it printed and its exit code. Errors of a configuration go to the
// process's standard error.
func execute(t *testing.T, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	before := os.Stderr
	os.Stderr = write
	defer func() { os.Stderr = before }()
	var out, errs bytes.Buffer
	root := rootCommand()
	root.SetArgs(append([]string{}, args...)) // nil would mean those of this process
	root.SetOut(&out)
	root.SetErr(&errs)
	code = cli.Report(&errs, root.ExecuteContext(t.Context()))
	if err := write.Close(); err != nil {
		t.Fatal(err)
	}
	var reported bytes.Buffer
	if _, err := reported.ReadFrom(read); err != nil {
		t.Fatal(err)
	}
	return out.String(), reported.String() + errs.String(), code
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
		{"validat", `error: there is no command "validat"; did you mean validate?`},
		{"--nope", `error: unknown flag: --nope; see shardctl --help`},
		{"run", `error: --config: required, a file or a directory`},
		{"run --config x --wait-store -3s", `error: --wait-store -3s: must not be negative`},
		{"run --config " + missing, missing + `: cannot be read: no such file or directory`},
		{"validate", `error: requires at least 1 arg(s), only received 0; see shardctl validate --help`},
		{"validate " + missing, missing + `: cannot be read: no such file or directory`},
		{"plan " + good, `error: --replicas 0: required, 1 to 10000`},
		{"plan " + good + " --replicas 3 --lose 4", `error: --lose 4: want 0 to 3, the number of replicas`},
		{"plan " + good + " --replicas 3 -o xml", `error: --output "xml": want table or json`},
		{"version x", `error: unknown command "x" for "shardctl version"; see shardctl version --help`},
		{"get tasks --config " + missing, missing + `: cannot be read: no such file or directory`},
		{"get frobs", `error: say what: tasks, instances, groups, events or locks; see shardctl get --help`},
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
	for _, args := range [][]string{{"validate", path}, {"run", "--config", path}, {"plan", path, "--replicas", "2"}} {
		_, stderr, code := execute(t, args...)
		lines := strings.Split(strings.TrimSpace(stderr), "\n")
		if code != cli.CodeUsage || len(lines) != 2 ||
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
	if code != 0 || !strings.HasPrefix(stdout, "shardctl "+version+" (revision ") {
		t.Errorf("code %d: %s", code, stdout)
	}
}
