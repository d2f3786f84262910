package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/shardctl/shardctl/internal/lockcommand"
)

// What is wrong on the command line is told by the flag, its value and what is allowed, and nothing is started.
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
