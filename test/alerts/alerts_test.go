package alerts

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"

	"github.com/shardctl/shardctl/pkg/api"
)

const chart = "../../helm/shardctl"

// alert is one of files/alerts.yaml.
type alert struct {
	Alert       string `yaml:"alert"`
	Severity    string `yaml:"severity"`
	For         string `yaml:"for"`
	Threshold   any    `yaml:"threshold"`
	Expr        string `yaml:"expr"`
	Summary     string `yaml:"summary"`
	Description string `yaml:"description"`
}

// filled is the expression with its words replaced, as the chart does.
func (a alert) filled() string {
	return strings.NewReplacer("SELECTOR", `namespace="prod", job=~"(.+/)?shardctl"`, "THRESHOLD", "1").Replace(a.Expr)
}

func readAlerts(t *testing.T) []alert {
	t.Helper()
	var all []alert
	readYAML(t, filepath.Join(chart, "files/alerts.yaml"), &all)
	if len(all) == 0 {
		t.Fatal("there are no alerts")
	}
	return all
}

func readYAML(t *testing.T, path string, into any) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(b, into); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
}

func TestAlertsNameWhatIsThere(t *testing.T) {
	there := whatIsExposed(t)
	for _, a := range readAlerts(t) {
		for _, wrong := range there.check(a.filled()) {
			t.Errorf("%s: %s", a.Alert, wrong)
		}
	}
}

// Problems that need no alert by their reason, and why.
var withoutAlert = map[string]string{
	api.ProblemNoCapacity:    "ShardctlTasksUnassigned counts the tasks",
	api.ProblemNoInstance:    "ShardctlTasksUnassigned counts the tasks",
	api.ProblemNoHeadroom:    "ShardctlNoHeadroom has the number",
	api.ProblemTaskFailing:   "ShardctlTaskCrashLooping, -TaskFailed and -RunsFailing count tasks and runs",
	api.ProblemNoApplication: "other replicas take the keys; where none can, ShardctlTasksUnassigned counts them",
	api.ProblemConfigInvalid: "ShardctlConfigReloadFailed has a metric of its own",
	api.ProblemInstanceSilent: "it passes within a lease: the replica is heard of again, or it is dead, which is " +
		"ShardctlInstancesMissing",
}

// Each problem that a replica can report wakes somebody, or it is written down why not.
func TestProblemsHaveAlerts(t *testing.T) {
	var asked strings.Builder
	for _, a := range readAlerts(t) {
		asked.WriteString(a.Expr)
	}
	// StoreUnreachable also says whose view does not count.
	only := strings.NewReplacer("unless on (cluster, namespace, job, instance) "+
		`(shardctl_cluster_problems{SELECTOR, reason="StoreUnreachable"} > 0)`, "").Replace(asked.String())
	for _, reason := range api.ProblemReasons() {
		alerts := regexp.MustCompile(`reason=~?"[^"]*\b` + reason + `\b`).MatchString(only)
		if why := withoutAlert[reason]; alerts == (why != "") {
			t.Errorf("%s: an alert asks for it: %v; why none has to: %q", reason, alerts, why)
		}
	}
}

var labelOfAlert = regexp.MustCompile(`\$labels\.(\w+)`)

func TestAlertsAreWhole(t *testing.T) {
	there := whatIsExposed(t)
	names := map[string]bool{}
	for _, a := range readAlerts(t) {
		if names[a.Alert] || !strings.HasPrefix(a.Alert, "Shardctl") {
			t.Errorf("%s: a name that begins with Shardctl and stands once, please", a.Alert)
		}
		names[a.Alert] = true
		if !slices.Contains([]string{"critical", "warning", "info"}, a.Severity) || a.For == "" || a.Summary == "" ||
			a.Description == "" {
			t.Errorf(
				"%s: severity %q, for %q, summary %q, description %q", a.Alert, a.Severity, a.For, a.Summary,
				a.Description,
			)
		}
		if strings.Contains(a.Expr, "THRESHOLD") != (a.Threshold != nil) {
			t.Errorf("%s: threshold %v and THRESHOLD in the expression belong together", a.Alert, a.Threshold)
		}
		for _, metric := range unselected(a.filled()) {
			t.Errorf("%s: %s is not limited to this release", a.Alert, metric)
		}
		for _, label := range mentioned(labelOfAlert, a.Summary+a.Description) {
			if !there.kept(a.filled(), label) {
				t.Errorf("%s names the label %s, which its series do not have", a.Alert, label)
			}
		}
	}
}

// promtest is what matters here of a file for `promtool test rules`.
type promtest struct {
	Tests []struct {
		Name  string `yaml:"name"`
		Rules []struct {
			Alert    string `yaml:"alertname"`
			Expected []any  `yaml:"exp_alerts"`
		} `yaml:"alert_rule_test"`
	} `yaml:"tests"`
}

func TestEveryAlertIsSeenToFireAndToStaySilent(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(chart, "promtests/*.test.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no tests: %v", err)
	}
	fires, silent := map[string]bool{}, map[string]bool{}
	for _, file := range files {
		var f promtest
		readYAML(t, file, &f)
		for _, test := range f.Tests {
			for _, r := range test.Rules {
				if len(r.Expected) > 0 {
					fires[r.Alert] = true
				} else {
					silent[r.Alert] = true
				}
			}
		}
	}
	known := map[string]bool{}
	for _, a := range readAlerts(t) {
		known[a.Alert] = true
		if !fires[a.Alert] || !silent[a.Alert] {
			t.Errorf(
				"%s: a test where it fires: %v, one where it is silent: %v", a.Alert, fires[a.Alert], silent[a.Alert],
			)
		}
	}
	for name := range silent { // of an alert that does not exist, promtool finds it silent
		if !known[name] {
			t.Errorf("%s is tested to be silent, and does not exist", name)
		}
	}
}
