package alerts

import (
	"strings"
	"testing"
)

// What looks for mistakes must find them.
func TestMistakesAreFound(t *testing.T) {
	there := whatIsExposed(t)
	for expr, want := range map[string]string{
		`shardctl_cluster_taks`: `no metric "shardctl_cluster_taks"`,
		// a histogram has no series of this name
		`shardctl_failover_duration_seconds`:                             `no metric`,
		`shardctl_cluster_tasks{status="running"}`:                       `no label "status"`,
		`shardctl_cluster_tasks{state="orphaned"}`:                       `no state "orphaned"`,
		`shardctl_cluster_tasks{state=~"backoff|fail"}`:                  `no state "fail"`,
		`shardctl_cluster_problems{reason="NoRoom"}`:                     `no reason "NoRoom"`,
		`rate(shardctl_task_runs_total{result="error"}[5m])`:             `no result "error"`,
		`sum by (groups) (shardctl_owned_tasks)`:                         `label "groups"`,
		`shardctl_owned_tasks / on (owner) shardctl_owned_tasks_limit`:   `label "owner"`,
		`shardctl_owned_tasks / on (group) group_left (hash) up`:         `label "hash"`,
		`histogram_quantile(0.9, sum by (le) (shardctl_build_info))`:     `label "le"`,
		`sum by (group) (shardctl_owned_tasks`:                           `parse error`,
		`rate(shardctl_moves_total)`:                                     `expected type range vector`,
		`max by (task) (rate(shardctl_releases_total[5m]))`:              `label "task"`,
		`shardctl_heartbeat_failures_total{group="topics"}`:              `no label "group"`,
		`absent(shardctl_builds_info{namespace="prod"})`:                 `no metric`,
		`avg_over_time(shardctl_cluster_task{state="backoff"}[10m]) > 0`: `no metric`,
	} {
		if got := strings.Join(there.check(expr), "; "); !strings.Contains(got, want) {
			t.Errorf("%s: found %q, want %q", expr, got, want)
		}
	}
	for _, expr := range []string{
		`sum by (namespace, job, pod, group) (shardctl_owned_tasks{cluster=~".*"})`,
		`sum by (group, task) (rate(shardctl_task_restarts_total{task!=""}[5m]))`,
		`histogram_quantile(0.9, sum by (le) (rate(shardctl_failover_duration_seconds_bucket[5m])))`,
		`up == 0`,
	} {
		if wrong := there.check(expr); wrong != nil {
			t.Errorf("%s: %v", expr, wrong)
		}
	}
}

func TestLabelsThatAreAggregatedAwayAreFound(t *testing.T) {
	there := whatIsExposed(t)
	for _, c := range []struct {
		expr, label string
		want        bool
	}{
		{`max by (group) (shardctl_cluster_tasks{state="failed"})`, "group", true},
		{`max by (group) (shardctl_cluster_tasks{state="failed"})`, "state", false},
		{`max by (group) (sum by (group, state) (shardctl_cluster_tasks))`, "state", false},
		{`shardctl_cluster_tasks > 0`, "state", true},
		{`shardctl_cluster_tasks > 0`, "reason", false},
		{`2 * (sum by (group) (shardctl_owned_tasks))`, "group", true},
		{`sum by (task) (rate(shardctl_task_restarts_total[5m])) or sum by (group) (rate(shardctl_task_restarts_total[5m]))`, "group", true},
		{
			`histogram_quantile(0.9, sum by (op, le) (rate(shardctl_store_operation_duration_seconds_bucket[5m])))`,
			"op", true,
		},
		{`rate(shardctl_moves_total[5m])`, "reason", true},
		{`absent(up{namespace="prod", job=~"x"})`, "namespace", true},
		{`absent(up{namespace="prod", job=~"x"})`, "job", false},
	} {
		if got := there.kept(c.expr, c.label); got != c.want {
			t.Errorf("%s: %s kept: %v", c.expr, c.label, got)
		}
	}
}

func TestAlertsForEveryReleaseAreFound(t *testing.T) {
	const one = `up{namespace="a", job="b"}`
	for expr, want := range map[string]int{one: 0, `up > 0`: 2, one + ` unless shardctl_owned_tasks{job="b"}`: 1} {
		if got := unselected(expr); len(got) != want {
			t.Errorf("%s: %v", expr, got)
		}
	}
}
