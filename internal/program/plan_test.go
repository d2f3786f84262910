package program

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/shardctl/shardctl/internal/cli"
	"github.com/shardctl/shardctl/internal/reconcile"
)

var update = flag.Bool("update", false, "write what the commands print into testdata")

// TestPlanTables holds the tables of plan to testdata/plan-*.txt: the command line, its exit code, and what it prints.
func TestPlanTables(t *testing.T) {
	t.Setenv("SHARDCTL_STORE_URI", "sqlite:x.db")
	for name, test := range map[string]struct {
		args string
		code int
	}{
		"ten":       {"plan ../../config/topics.yaml --replicas 10", 0},
		"lose-five": {"plan ../../config/topics.yaml --replicas 10 --lose 5", 0},
		"lose-six":  {"plan ../../config/topics.yaml --replicas 10 --lose 6", cli.CodeNo},
		"lose-all":  {"plan ../../config/topics.yaml --replicas 2 --lose 2", cli.CodeNo},
		"one-short": {"plan ../../config/topics.yaml --replicas 4", cli.CodeNo},
		"no-cap":    {"plan ../../config/schedules.yaml --replicas 3 --lose 1", 0},
		"max-tasks": {"plan testdata/max-tasks.yaml --replicas 2 --lose 1", cli.CodeNo},
		"selectors": {
			"plan testdata/selectors.yaml --replicas 5 --labels pool=gpu,zone=a:2 --labels pool=cpu:1 --lose 1",
			cli.CodeNo,
		},
		"no-pool":    {"plan testdata/selectors.yaml --replicas 5", cli.CodeNo},
		"two-groups": {"plan ../../config/jobs.yaml --replicas 3 --lose 1", cli.CodeNo},
	} {
		t.Run(name, func(t *testing.T) {
			stdout, stderr, code := execute(t, strings.Fields(test.args)...)
			if code != test.code {
				t.Errorf("exit code %d, want %d", code, test.code)
			}
			got := "$ shardctl " + test.args + "\n" + stdout + stderr
			file := filepath.Join("testdata", "plan-"+name+".txt")
			if *update {
				if err := os.WriteFile(file, []byte(got), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if got != string(want) {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
		})
	}
}

func TestPlanJSON(t *testing.T) {
	stdout, stderr, code := execute(
		t, "plan", "../../config/topics.yaml", "--replicas", "10", "--lose", "6", "-o", "json",
	)
	if code != cli.CodeNo || stderr != "error: 20 tasks would be left over\n" {
		t.Errorf("code %d: %s", code, stderr)
	}
	var f reconcile.Forecast
	if err := json.Unmarshal([]byte(stdout), &f); err != nil {
		t.Fatal(err)
	}
	if f.LeftOver != 20 || len(f.Groups) != 1 || f.Groups[0].Tasks != 100 || len(f.Groups[0].Before.Instances) != 10 {
		t.Errorf("%+v", f)
	}
}

func TestPlanYAML(t *testing.T) {
	stdout, stderr, code := execute(t, "plan", "../../config/topics.yaml", "--replicas", "10", "-o", "yaml")
	if code != 0 || stderr != "" || !strings.Contains(stdout, "groups:\n") {
		t.Errorf("code %d: %s\n%s", code, stderr, stdout)
	}
}

// TestPlanRefuses holds what plan refuses before it computes anything.
func TestPlanRefuses(t *testing.T) {
	for args, want := range map[string]string{
		"--replicas 1000000000":                                "--replicas 1000000000: required, 1 to 10000",
		"--replicas 0":                                         "--replicas 0: required, 1 to 10000",
		"--replicas 3 --labels pool=gpu":                       "want K=V,...:N",
		"--replicas 3 --labels pool:2":                         `"pool" is not K=V`,
		"--replicas 3 --labels pool=gpu:2 --labels pool=cpu:2": "only 1 replica left of --replicas 3",
	} {
		_, stderr, code := execute(t, append([]string{"plan", "../../config/topics.yaml"}, strings.Fields(args)...)...)
		if code != cli.CodeUsage || !strings.Contains(stderr, want) {
			t.Errorf("%s: code %d, %s; want %d, %s", args, code, stderr, cli.CodeUsage, want)
		}
	}
}
