//go:build linux

package harness

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/shardctl/shardctl/test/e2e/history"
)

func TestFindMetric(t *testing.T) {
	const text = `# HELP shardctl_cluster_tasks Tasks.
# TYPE shardctl_cluster_tasks gauge
shardctl_cluster_tasks{group="topics",state="running"} 80
shardctl_cluster_tasks{group="topics",state="unassigned"} 20
shardctl_heartbeat_failures_total 3
`
	for _, test := range []struct {
		name   string
		labels map[string]string
		want   float64
		found  bool
	}{
		{"shardctl_cluster_tasks", map[string]string{"group": "topics", "state": "unassigned"}, 20, true},
		{"shardctl_cluster_tasks", map[string]string{"state": "running"}, 80, true},
		{"shardctl_cluster_tasks", map[string]string{"state": "done"}, 0, false},
		{"shardctl_cluster", nil, 0, false},
		{"shardctl_heartbeat_failures_total", nil, 3, true},
	} {
		got, found := findMetric(text, test.name, test.labels)
		if got != test.want || found != test.found {
			t.Errorf("%s%v = %v, %v; want %v, %v", test.name, test.labels, got, found, test.want, test.found)
		}
	}
}

func TestConfigIsYAMLWithTheNamesOfTheDocumentation(t *testing.T) {
	o := Options{
		StoreURI: "sqlite:x.db", Lease: 4 * time.Second, Settle: time.Second, Cap: 30, Tasks: 100,
		Recorder: []string{"--fork"},
	}
	text, err := o.config("r1", "127.0.0.1:1", "127.0.0.1:2", "/bin/recorder", "/records")
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		Instance string
		Lease    struct{ Duration time.Duration }
		Groups   []struct {
			Cap   int
			Tasks []struct {
				Name string
				Exec struct {
					Command []string
					Env     map[string]string
				}
			}
		}
	}
	if err := yaml.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	task := got.Groups[0].Tasks[0]
	if got.Instance != "r1" || got.Lease.Duration != 4*time.Second || got.Groups[0].Cap != 30 ||
		task.Name != "topic-{001..100}" ||
		strings.Join(task.Exec.Command, " ") != "/bin/recorder --fork" || task.Exec.Env["RECORD_DIR"] != "/records" {
		t.Errorf("configuration:\n%s", text)
	}
}

// TestRecorder runs the task of the scenarios without a replica, as a check of how deaths are seen.
func TestRecorder(t *testing.T) {
	dir, records := t.TempDir(), t.TempDir()
	bin := filepath.Join(dir, "recorder")
	if err := build(t.Context(), "../../..", bin, "./test/e2e/recorder"); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(bin, "--fork", "--ignore-term")
	cmd.Env = append(os.Environ(), "SHARDCTL_KEY=topics/topic-001", "SHARDCTL_SESSION=s", "SHARDCTL_INSTANCE=r1",
		"SHARDCTL_FENCING_TOKEN=7", recordEnv+"="+records)
	if err := spawn(cmd); err != nil {
		t.Fatal(err)
	}
	p, err := procOf(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	waitFor(t, "both record", func() bool {
		runs := runsOf(t, records)
		return len(runs) == 1 && len(runs[0].Children) == 1 && runs[0].Children[0].Timestamps > 3
	})
	if err := p.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	since := history.Now()
	waitFor(t, "the command goes on after SIGTERM", func() bool { return runsOf(t, records)[0].MainEnd > since })

	if err := p.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // killed
	if p.Alive() {
		t.Error("alive after SIGKILL")
	}
	left := withEnv(recordEnv, records)
	if len(left) != 1 {
		t.Fatalf("%d processes left, want the child", len(left))
	}
	since = history.Now()
	waitFor(t, "the child goes on", func() bool { return runsOf(t, records)[0].End > since })
	if err := left[0].Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "the child ends", func() bool { return !left[0].Alive() })
}

func runsOf(t *testing.T, records string) []history.Run {
	t.Helper()
	h, err := history.Load(records)
	if err != nil {
		t.Fatal(err)
	}
	return h.Runs("topics/topic-001")
}

func waitFor(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("timed out: %s", what)
		}
	}
}
