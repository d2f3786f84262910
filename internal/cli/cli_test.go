package cli

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/goleak"

	"github.com/shardctl/shardctl/internal/snapshot"
	"github.com/shardctl/shardctl/internal/status"
	"github.com/shardctl/shardctl/pkg/api"
)

var update = flag.Bool("update", false, "write the golden files again")

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var epoch = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func ago(d time.Duration) api.Time { return api.Time{Time: epoch.Add(-d)} }

// replica serves the board and returns its address.
func replica(t *testing.T, board *snapshot.Board) string {
	t.Helper()
	return serve(t, status.Config{Source: board, Events: happened, Runs: ran, Logs: wrote})
}

// serve serves what only reads and returns its address.
func serve(t *testing.T, c status.Config) string {
	t.Helper()
	server := httptest.NewServer(status.New(c))
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
		http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	})
	return server.URL
}

func board(s *snapshot.Cluster) *snapshot.Board {
	var b snapshot.Board
	b.Publish(s)
	return &b
}

type outcome struct {
	out, err string
	code     int
}

func globals() *Globals {
	return &Globals{Now: func() time.Time { return epoch }, Getenv: func(string) string { return "" }}
}

func root0(g *Globals) *cobra.Command {
	root := &cobra.Command{Use: "shardctl", SilenceErrors: true, SilenceUsage: true}
	root.AddCommand(Commands(g)...)
	return root
}

// shardctl runs a command line as the program does.
func shardctl(t *testing.T, g *Globals, args ...string) outcome {
	t.Helper()
	var out, errs bytes.Buffer
	cmd := root0(g)
	cmd.SetArgs(args)
	cmd.SetOut(&out)
	cmd.SetErr(&errs)
	code := Report(&errs, cmd.ExecuteContext(t.Context()))
	return outcome{out.String(), errs.String(), code}
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs (write it again with -update)\ngot\n%s\nwant\n%s", path, got, want)
	}
}

func TestOutputs(t *testing.T) {
	server := replica(t, board(sample()))
	for file, line := range map[string]string{
		"status.txt":         "status",
		"status.json":        "status -o json",
		"status-path.txt":    "status -o jsonpath={.problems[*].reason}",
		"tasks-sorted.txt":   "get tasks --sort-by .restarts",
		"tasks-by-time.txt":  "get tasks --sort-by {.stateSince}",
		"tasks-path.txt":     "get tasks -o jsonpath={.items[*].key}",
		"task-path.txt":      "get tasks topics/topic-001 -o jsonpath=fencingToken",
		"runs-sorted.txt":    "get runs jobs/nightly --sort-by scheduledAt",
		"logs.txt":           "logs topics/topic-001",
		"logs-tail.txt":      "logs topic-001 -g topics --tail 1",
		"tasks.txt":          "get tasks",
		"tasks-wide.txt":     "get tasks -o wide",
		"tasks-selected.txt": "get task -g topics -l team -o table --no-headers",
		"tasks-pattern.txt":  "get tasks topics/*-00[1-3] -o name",
		"tasks-names.txt":    "get tasks -g topics topic-001 topic-004",
		"task.json":          "get tasks topics/topic-001 -o json",
		"tasks.yaml":         "get tasks topics/topic-00[45] -o yaml",
		"instances.txt":      "get instances",
		"instances-wide.txt": "get instances -o wide",
		"instance.yaml":      "get instance a -o yaml",
		"groups.txt":         "get groups",
		"groups-wide.txt":    "get groups -o wide",
		"events.txt":         "get events",
		"events-wide.txt":    "get events -o wide",
		"locks.txt":          "get locks",
		"locks-wide.txt":     "get locks -o wide",
		"owners.txt":         "get owners",
		"owners-wide.txt":    "get owners topics/topic-002 -o wide",
		"owners.json":        "get owners -g topics topic-002 -o json",
		"overrides.txt":      "get overrides",
		"overrides-wide.txt": "get overrides -o wide",
		"overrides.json":     "get overrides -g topics -o json",
		"overrides-name.txt": "get overrides topic-* a -o name",
		"override.yaml":      "get override jobs -o yaml",
		"overrides-l.txt":    "get overrides -l pool=gpu",
		"problems.txt":       "get problems",
		"problems.json":      "get problems NoHeadroom -o json",
		"problems-name.txt":  "get problems -g topics -o name",
		"runs.txt":           "get runs jobs/nightly",
		"runs-wide.txt":      "get runs nightly -g jobs -o wide",
		"runs.json":          "get runs jobs/nightly -o json",

		"describe-orphaned.txt":   "describe task topics/topic-002",
		"describe-backoff.txt":    "describe task topic-003 -g topics",
		"describe-unassigned.txt": "describe task topics/topic-005",
		"describe-runs.txt":       "describe task jobs/nightly",
		"describe-failing.txt":    "describe task",
		"describe-removed.txt":    "describe task topics/gone",
		"describe-instance.txt":   "describe instance a",
		"describe-dead.txt":       "describe instance c",
		"describe-group.txt":      "describe group topics",
		"describe-pinned.txt":     "describe task topics/topic-004",
		"describe-task.json":      "describe task jobs/nightly -o json",
		"describe-removed.json":   "describe task topics/gone -o json",
		"describe-instance.yaml":  "describe instance b -o yaml",
		"describe-group.yaml":     "describe group jobs -o yaml",
		"describe-path.txt":       "describe task topics/topic-005 -o jsonpath=.task.message",
	} {
		t.Run(file, func(t *testing.T) {
			got := shardctl(t, globals(), append(strings.Fields(line), "--server", server)...)
			if got.code != 0 || got.err != "" {
				t.Fatalf("code %d: %s", got.code, got.err)
			}
			golden(t, file, got.out)
		})
	}
}

func TestWrongUse(t *testing.T) {
	server := replica(t, board(sample()))
	for line, c := range map[string]struct {
		code int
		says string
	}{
		"get":                                     {2, "tasks, instances"},
		"get cats":                                {2, "tasks, instances"},
		"get tasks -o xml":                        {2, "table, wide"},
		"get taks":                                {2, "did you mean tasks?"},
		"describe instnace a":                     {2, "did you mean instance?"},
		"get tasks topics/topic-0001":             {1, "did you mean topics/topic-001?"},
		"get tasks --selectr a=b":                 {2, "did you mean --selector?"},
		"get tasks -o jsonpath":                   {2, "add a template"},
		"get tasks -o jsonpath={.items":           {2, "as '{.items[*].key}'"},
		"get tasks --sort-by .restart":            {2, "the fields are declaredWeight, fencingToken, group"},
		"get tasks --sort-by {.key":               {2, "--sort-by {.key"},
		"get tasks --sort-by .key -w":             {2, "--sort-by does not go"},
		"status -o wide":                          {2, "want table, json, yaml or jsonpath=TEMPLATE"},
		"status -w -o yaml":                       {2, "-w goes"},
		"wait --for=balance":                      {2, "did you mean balanced?"},
		"wait --for=done --timeout 10":            {2, "add a unit: 10s"},
		"get tasks --request-timeout 10":          {2, "add a unit: 10s"},
		"get tasks --request-timeout soon":        {2, "a duration such as 500ms"},
		"logs":                                    {2, "GROUP/NAME"},
		"logs topics/topic-*":                     {2, "one task"},
		"logs topics/none":                        {1, "none"},
		"logs topics/topic-005":                   {1, "does not run now"},
		"logs topics/topic-001 --tail 2000":       {2, "0 to 1000"},
		"get tasks -w -o yaml":                    {2, "-w goes"},
		"get tasks --frobnicate":                  {2, "frobnicate"},
		"get tasks -l a=b=c":                      {2, "k in (a,b)"},
		"get locks -l a=b":                        {2, "labels"},
		"get problems -l a=b":                     {2, "labels"},
		"get problems NoHeadrom":                  {1, "did you mean NoHeadroom?"},
		"get overrides none":                      {1, "none"},
		"get events --since yesterday":            {2, "want how long ago, as 1h, or a moment"},
		"get events --since -1h":                  {2, "--since"},
		"get events --since=":                     {2, "--since"},
		"get events --limit 0":                    {2, "--limit 0: want 1 or more"},
		"get events --limit 5 -w":                 {2, "--limit does not go with -w"},
		"get tasks --limit 5":                     {2, "--limit is of events"},
		"get tasks --since 1h":                    {2, "--since is of events"},
		"whoami me":                               {2, "no arguments"},
		"get tasks topic-001":                     {2, "GROUP/topic-001"},
		"get tasks [":                             {2, "pattern"},
		"get tasks topics/none":                   {1, "topics/none"},
		"get instances none":                      {1, "none"},
		"get runs":                                {2, "GROUP/NAME"},
		"get runs jobs/none":                      {1, "none"},
		"get runs jobs/nightly -w":                {2, "events -w"},
		"describe":                                {2, "say what"},
		"describe events x":                       {2, "say what"},
		"describe task topic-001":                 {2, "GROUP/topic-001"},
		"describe task topics/none":               {1, "shardctl get tasks"},
		"describe group none":                     {1, "none"},
		"describe group topics -o wide":           {2, "want table, json, yaml or jsonpath=TEMPLATE"},
		"status now":                              {2, "now"},
		"wait":                                    {2, "--for"},
		"wait --for=peace":                        {2, "peace"},
		"wait --for=balanced topics/topic-001":    {2, "-g"},
		"wait --for=running topic-001":            {2, "GROUP/topic-001"},
		"wait --for=done --timeout -1s":           {2, "timeout"},
		"wait --for=done --timeout soon":          {2, "soon"},
		"get tasks --server ftp://x":              {2, "http://HOST:PORT"},
		"get tasks --token-file /none":            {2, "/none"},
		"get tasks --ca-file /none":               {2, "/none"},
		"get tasks --server http://127.0.0.1:1":   {1, "start a replica"},
		"status --server 127.0.0.1:1":             {1, "connection refused"},
		"healthcheck --server http://127.0.0.1:1": {1, "not healthy"},
		"healthcheck --server ftp://x":            {1, "http://HOST:PORT"},
		"healthcheck --oops":                      {1, "oops"},
		"healthcheck now":                         {1, "now"},
	} {
		args := strings.Fields(line)
		if !strings.Contains(line, "--server") {
			args = append(args, "--server", server)
		}
		got := shardctl(t, globals(), args...)
		if got.code != c.code || !strings.Contains(got.err, c.says) || got.out != "" ||
			strings.Count(got.err, "\n") != 1 {
			t.Errorf("%s: code %d, out %q, %s", line, got.code, got.out, got.err)
		}
	}
}

func TestNothingFoundIsNoError(t *testing.T) {
	server := replica(t, board(sample()))
	for line, want := range map[string]outcome{
		"get tasks -g none":              {"", "No tasks found in group none.\n", 0},
		"get tasks none*":                {"", "No tasks found.\n", 0},
		"get tasks -g none -o name":      {"", "", 0},
		"get events -g topics topic-005": {"", "No events found in group topics.\n", 0},
	} {
		if got := shardctl(t, globals(), append(strings.Fields(line), "--server", server)...); got != want {
			t.Errorf("%s: got %+v", line, got)
		}
	}
	got := shardctl(t, globals(), "get", "tasks", "-g", "none", "-o", "json", "--server", server)
	if got.code != 0 || !strings.Contains(got.out, `"items": []`) {
		t.Errorf("got %+v", got)
	}
	// What was found is shown with the error about what was not.
	got = shardctl(t, globals(), "get", "tasks", "topics/topic-001", "topics/none", "-o", "name", "--server", server)
	if got.code != 1 || got.out != "topics/topic-001\n" || !strings.Contains(got.err, "topics/none") {
		t.Errorf("got %+v", got)
	}
}

func TestHealthcheck(t *testing.T) {
	// A replica that knows nothing yet is alive.
	g := globals()
	server := replica(t, &snapshot.Board{})
	g.Getenv = func(name string) string { return map[string]string{"SHARDCTL_SERVER": server}[name] }
	if got := shardctl(t, g, "healthcheck"); got != (outcome{}) {
		t.Errorf("got %+v", got)
	}
}

func TestToken(t *testing.T) {
	var got string
	server := httptest.NewServer(
		http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got = r.Header.Get("Authorization") }),
	)
	defer server.Close()
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte("from-file\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	g := globals()
	g.Getenv = func(name string) string { return map[string]string{"SHARDCTL_ADMIN_TOKEN": "from-env"}[name] }
	if shardctl(t, g, "healthcheck", "--server", server.URL); got != "Bearer from-env" {
		t.Error(got)
	}
	if shardctl(t, g, "healthcheck", "--server", server.URL, "--token-file", file); got != "Bearer from-file" {
		t.Error(got)
	}
}

func TestOffline(t *testing.T) {
	var asked []string
	g := globals()
	g.Offline = func(_ context.Context, paths []string) (*snapshot.Cluster, error) {
		asked = paths
		return sample(), nil
	}
	got := shardctl(t, g, "get", "tasks", "--config", "a.yaml", "--config", "b")
	golden(t, "tasks.txt", got.out)
	if got.code != 0 || len(asked) != 2 {
		t.Errorf("code %d: %s, asked for %v", got.code, got.err, asked)
	}
	if got := shardctl(t, g, "get", "tasks", "topics/topic-001", "--config", "a.yaml", "-w"); got.code != 2 {
		t.Errorf("got %+v", got)
	}
	g = globals()
	g.Offline = func(context.Context, []string) (*snapshot.Cluster, error) {
		return nil, Exit{CodeUsage, errors.New("a.yaml:1:1: version: missing")}
	}
	if got := shardctl(t, g, "status", "--config", "a.yaml"); got.code != 2 ||
		!strings.Contains(got.err, "a.yaml:1:1") {
		t.Errorf("got %+v", got)
	}
}

func TestColourIsBesideTheWord(t *testing.T) {
	v := surface{Now: epoch, Colour: true}
	if got := v.state("failed"); got != "\x1b[31mfailed\x1b[0m" {
		t.Errorf("%q", got)
	}
	v.Colour = false
	if got := v.state("failed"); got != "failed" {
		t.Errorf("%q", got)
	}
	if new(Globals).surface(&bytes.Buffer{}).Colour {
		t.Error("a file is coloured")
	}
}

func TestSpan(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0s", 119 * time.Second: "119s", 2 * time.Minute: "2m", 123 * time.Second: "2m3s", time.Hour: "60m",
		3 * time.Hour: "3h", 47 * time.Hour: "47h", 49 * time.Hour: "2d",
	} {
		if got := span(d); got != want {
			t.Errorf("%s: %s", d, got)
		}
	}
}

// An instance that has left is shown to who names it, as describe does.
func TestInstancesThatHaveLeftAreShownByName(t *testing.T) {
	server := replica(t, board(sample()))
	for line, want := range map[string]outcome{
		"get instances d -o jsonpath=.state": {"left\n", "", 0},
		"get instances a d -o name":          {"a\nd\n", "", 0},
		"get instances [ad] -o name":         {"a\n", "", 0},
		"get instances -o name":              {"a\nb\nc\n", "", 0},
	} {
		if got := shardctl(t, globals(), append(strings.Fields(line), "--server", server)...); got != want {
			t.Errorf("%s: got %+v", line, got)
		}
	}
}
