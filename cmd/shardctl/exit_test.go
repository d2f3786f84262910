package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/shardctl/shardctl/internal/cli"
)

// TestExitCodes holds that commands that ask neither a replica nor a store end with 0 when it is done, with 1 when the
// answer is no, and with 2 when the command line or a configuration is wrong. Package cli has such a test of the
// others.
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
		"frob":                          cli.CodeUsage,
		"version now":                   cli.CodeUsage,
		"version -o xml":                cli.CodeUsage,
		"validate":                      cli.CodeUsage,
		"validate " + bad:               cli.CodeUsage,
		"plan " + bad + " --replicas 2": cli.CodeUsage,
		"plan " + good:                  cli.CodeUsage,
		"run":                           cli.CodeUsage,
		"run --config " + bad:           cli.CodeUsage,
		"dev --replicas 0":              cli.CodeUsage,
		"dev --tasks many":              cli.CodeUsage,
		"status --config " + bad:        cli.CodeUsage,
		"drain a --config " + bad:       cli.CodeUsage,
		"pause -g g --config " + bad:    cli.CodeUsage,
		"completion powershell --frob":  cli.CodeUsage,
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
