package alerts

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"
)

var update = flag.Bool("update", false, "write config/prometheus/shardctl.rules.yml")

const (
	plainRules = "../../config/prometheus/shardctl.rules.yml"
	runbookURL = "https://github.com/shardctl/shardctl/blob/main/docs/operations/alerts.md"
	plainHead  = `# Alerts and recording rules of shardctl for a Prometheus without Helm, made of the chart's alerts.yaml and
# recording.yaml. They are for replicas that are scraped as job "shardctl" and have the default lease of 20 s; with another
# lease change the numbers of ShardctlHeartbeatFailing (0.75 of it) and ShardctlStoreSlow (0.05 of it). The chart's alert on
# missing replicas is left out: it needs their number.
#
# docs/operations/alerts.md explains each alert. inhibit_rules.yml beside this file is for Alertmanager.
`
)

// recorded is one of files/recording.yaml.
type recorded struct {
	Record string `yaml:"record"`
	Expr   string `yaml:"expr"`
}

func readRecorded(t *testing.T) []recorded {
	t.Helper()
	var all []recorded
	readYAML(t, filepath.Join(chart, "files/recording.yaml"), &all)
	if len(all) == 0 {
		t.Fatal("there are no recording rules")
	}
	return all
}

// plainThreshold is an alert's threshold for a lease of 20 s. ok is false where it depends on the number of replicas.
func plainThreshold(t *testing.T, a alert) (text string, ok bool) {
	t.Helper()
	switch threshold := a.Threshold.(type) {
	case nil:
		return "", true
	case map[string]any:
		if threshold["of"] != "LEASE" {
			return "", false
		}
		times, err := strconv.ParseFloat(fmt.Sprint(threshold["times"]), 64)
		if err != nil {
			t.Fatalf("%s: %v", a.Alert, err)
		}
		return strconv.FormatFloat(20*times, 'g', 4, 64), true
	default:
		return fmt.Sprint(threshold), true
	}
}

// plain is what config/prometheus/shardctl.rules.yml has to be.
func plain(t *testing.T) []byte {
	t.Helper()
	type rule struct {
		Record      string            `yaml:"record,omitempty"`
		Alert       string            `yaml:"alert,omitempty"`
		Expr        string            `yaml:"expr"`
		For         string            `yaml:"for,omitempty"`
		Labels      map[string]string `yaml:"labels,omitempty"`
		Annotations map[string]string `yaml:"annotations,omitempty"`
	}
	var alerts, records []rule
	for _, a := range readAlerts(t) {
		threshold, ok := plainThreshold(t, a)
		if !ok {
			continue
		}
		fill := strings.NewReplacer("SELECTOR", `job="shardctl"`, "THRESHOLD", threshold, "FULLNAME in NAMESPACE",
			"shardctl", " in {{ $labels.namespace }}", "", "or $labels.pod $labels.instance", "$labels.instance")
		alerts = append(alerts, rule{
			Alert: a.Alert, Expr: fill.Replace(a.Expr), For: a.For, Labels: map[string]string{"severity": a.Severity},
			Annotations: map[string]string{
				"summary": fill.Replace(a.Summary), "description": fill.Replace(a.Description),
				"runbook_url": runbookURL + "#" + strings.ToLower(a.Alert),
			},
		})
	}
	for _, r := range readRecorded(t) {
		records = append(records, rule{Record: r.Record, Expr: strings.ReplaceAll(r.Expr, "SELECTOR", `job="shardctl"`)})
	}
	type group struct {
		Name  string `yaml:"name"`
		Rules []rule `yaml:"rules"`
	}
	var out bytes.Buffer
	out.WriteString(plainHead)
	encoder := yaml.NewEncoder(&out)
	encoder.SetIndent(2)
	if err := encoder.Encode(map[string][]group{"groups": {{"shardctl", alerts}, {"shardctl-recorded", records}}}); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// Without Helm one gets the same alerts: the file for them is made of the chart's.
func TestPlainRulesAreTheChartsAlerts(t *testing.T) {
	want := plain(t)
	if *update {
		if err := os.WriteFile(plainRules, want, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(plainRules)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s is not what the chart's files make: run go test . -update in test/alerts", plainRules)
	}
	if word := regexp.MustCompile(`SELECTOR|THRESHOLD|LEASE|REPLICAS|FULLNAME|NAMESPACE`).Find(got); word != nil {
		t.Errorf("%s: the word %s is left", plainRules, word)
	}
}

func TestRecordingRulesNameWhatIsThere(t *testing.T) {
	there := whatIsExposed(t)
	for _, r := range readRecorded(t) {
		for _, wrong := range there.check(strings.ReplaceAll(r.Expr, "SELECTOR", `job="shardctl"`)) {
			t.Errorf("%s: %s", r.Record, wrong)
		}
	}
}

// An inhibition that names no alert would silence nothing, and nobody would notice.
func TestInhibitionsNameAlerts(t *testing.T) {
	var file struct {
		Rules []struct {
			Sources []string `yaml:"source_matchers"`
			Targets []string `yaml:"target_matchers"`
			Equal   []string `yaml:"equal"`
		} `yaml:"inhibit_rules"`
	}
	readYAML(t, "../../config/prometheus/inhibit_rules.yml", &file)
	var alerts []string
	for _, a := range readAlerts(t) {
		alerts = append(alerts, a.Alert)
	}
	matcher := regexp.MustCompile(`^alertname=(?:"(Shardctl\w+)"|~"Shardctl\(([\w|]+)\)")$`)
	named := func(matchers []string) (names []string) {
		for _, m := range matchers {
			found := matcher.FindStringSubmatch(m)
			switch {
			case found == nil:
				t.Errorf("matcher %s: want alertname=\"…\" or alertname=~\"Shardctl(…|…)\"", m)
			case found[1] != "":
				names = append(names, found[1])
			default:
				for name := range strings.SplitSeq(found[2], "|") {
					names = append(names, "Shardctl"+name)
				}
			}
		}
		return names
	}
	if len(file.Rules) == 0 {
		t.Fatal("there are no inhibitions")
	}
	for _, rule := range file.Rules {
		sources, targets := named(rule.Sources), named(rule.Targets)
		for _, name := range slices.Concat(sources, targets) {
			if !slices.Contains(alerts, name) {
				t.Errorf("there is no alert %s", name)
			}
		}
		for _, name := range sources {
			if slices.Contains(targets, name) {
				t.Errorf("%s silences itself", name)
			}
		}
		if !slices.Equal(rule.Equal[:3], []string{"cluster", "namespace", "job"}) {
			t.Errorf("%v silences other clusters' alerts: equal is %v", sources, rule.Equal)
		}
	}
}
