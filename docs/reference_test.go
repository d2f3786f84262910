package docs_test

import (
	"encoding/json"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/shardctl/shardctl/internal/kinds"
	"github.com/shardctl/shardctl/internal/metrics"
	"github.com/shardctl/shardctl/internal/snapshot"
	"github.com/shardctl/shardctl/pkg/api"
)

var metricRow = regexp.MustCompile("(?m)^\\| `(shardctl_[a-z_]+)` \\| (\\w+) \\| (.*?) ?\\| ")

// The page of the metrics has each metric once, with its labels, and no other.
func TestMetricsPage(t *testing.T) {
	page := map[string]string{}
	for _, m := range metricRow.FindAllStringSubmatch(read(t, "metrics.md"), -1) {
		if page[m[1]] != "" {
			t.Errorf("%s stands twice", m[1])
		}
		page[m[1]] = m[2] + " " + strings.NewReplacer("`", "", " ¹", "").Replace(m[3])
	}
	seen := map[string]bool{}
	for name, labels := range metricsOf(t) {
		seen[name] = true
		row, there := page[name]
		if !there {
			t.Errorf("%s is not on the page", name)
			continue
		}
		_, cells, _ := strings.Cut(row, " ")
		var has []string
		for cell := range strings.SplitSeq(cells, ", ") {
			if cell != "" {
				has = append(has, cell)
			}
		}
		slices.Sort(has)
		slices.Sort(labels)
		if !slices.Equal(has, labels) {
			t.Errorf("%s: the page has the labels %v, and it has %v", name, has, labels)
		}
	}
	for name := range page {
		if !seen[name] {
			t.Errorf("%s is on the page, and not in the program", name)
		}
	}
}

var descText = regexp.MustCompile(`fqName: "([^"]+)".*variableLabels: \{([^}]*)\}`)

// metricsOf are the names and labels of all metrics, as their descriptions say.
func metricsOf(t *testing.T) map[string][]string {
	t.Helper()
	all := map[string][]string{}
	described := make(chan *prometheus.Desc)
	go func() {
		defer close(described)
		metrics.New(true).Describe(described)
		metrics.NewCollector(&snapshot.Board{}, true).Describe(described)
	}()
	for d := range described {
		m := descText.FindStringSubmatch(d.String())
		if m == nil {
			t.Fatalf("not understood: %s", d)
		}
		all[m[1]] = slices.DeleteFunc(strings.Split(m[2], ","), func(s string) bool { return s == "" })
	}
	return all
}

var (
	pathRow   = regexp.MustCompile("(?m)^\\| `(/[^`]*)` \\|")
	changeRow = regexp.MustCompile("(?m)^\\| (?:`(/[^`]*/)VERB`[^|]*)?\\| ([^|]*)\\|")
	verbSpan  = regexp.MustCompile("`([a-z]+)`")
)

// The page of the API has each path once, and no other. Paths of changes stand as PATH/VERB, next to their verbs.
func TestAPIPage(t *testing.T) {
	var api struct {
		Paths map[string]any `json:"paths"`
	}
	if err := json.Unmarshal([]byte(read(t, root+"/internal/status/openapi.json")), &api); err != nil {
		t.Fatal(err)
	}
	var page []string
	text := read(t, "http-api.md")
	for _, m := range pathRow.FindAllStringSubmatch(text, -1) {
		if !strings.HasSuffix(m[1], "/VERB") {
			page = append(page, m[1])
		}
	}
	_, changes, _ := strings.Cut(text, "\n## Changes\n")
	changes, _, _ = strings.Cut(changes, "\n| field ")
	path := ""
	for _, m := range changeRow.FindAllStringSubmatch(changes, -1) {
		if m[1] != "" {
			path = m[1]
		}
		for _, verb := range verbSpan.FindAllStringSubmatch(m[2], -1) {
			page = append(page, path+verb[1])
		}
	}
	slices.Sort(page)
	if want := slices.Sorted(maps.Keys(api.Paths)); !slices.Equal(page, want) {
		t.Errorf("the page has\n%s\nand the API\n%s", strings.Join(page, "\n"), strings.Join(want, "\n"))
	}
}

// Every field that the schema knows is named on the page of the configuration.
func TestConfigurationPage(t *testing.T) {
	text, err := os.ReadFile("../config/shardctl.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	var schema any
	if err := json.Unmarshal(text, &schema); err != nil {
		t.Fatal(err)
	}
	definitions := schema.(map[string]any)["$defs"].(map[string]any)
	onPages := map[string]any{"subscriptions.md": map[string]any{}}
	for _, source := range kinds.Sources() {
		onPages["sources/"+source.Name()+".md"] = definitions[source.Name()]
		delete(definitions, source.Name())
	}
	for _, name := range []string{"deliver", "maxInFlight"} {
		onPages["subscriptions.md"].(map[string]any)[name] = definitions[name]
		delete(definitions, name)
	}
	lists := map[string]any{"discover": definitions["discover"]}
	delete(definitions, "discover")
	for _, lister := range kinds.Listers().All() {
		lists[lister.Name()] = definitions["discover-"+lister.Name()]
		delete(definitions, "discover-"+lister.Name())
	}
	onPages["discovery.md"] = lists
	for page, fragment := range onPages {
		named(t, page, fragment)
	}
	if n := named(t, "configuration.md", schema); n < 50 {
		t.Fatalf("only %d fields", n)
	}
}

// named holds that a page names all fields of a schema, and counts them.
func named(t *testing.T, file string, schema any) int {
	t.Helper()
	fields := map[string]bool{}
	collectFields(schema, fields)
	page := read(t, file)
	for name := range fields {
		if !regexp.MustCompile("`[^`\n]*\\b" + name + "\\b[^`\n]*`").MatchString(page) {
			t.Errorf("%s does not name %s", file, name)
		}
	}
	return len(fields)
}

func collectFields(v any, fields map[string]bool) {
	switch v := v.(type) {
	case map[string]any:
		if properties, is := v["properties"].(map[string]any); is {
			for name := range properties {
				fields[name] = true
			}
		}
		for _, inner := range v {
			collectFields(inner, fields)
		}
	case []any:
		for _, inner := range v {
			collectFields(inner, fields)
		}
	}
}

var reasonOfStore = regexp.MustCompile(`(?i)\breason\w*\s*=\s*"(Store\w+)"`)

// A store and the API write the names of problems each for itself. What a store reports is a word of the API.
func TestReasonsOfStores(t *testing.T) {
	known := map[string]bool{}
	for _, reason := range api.ProblemReasons() {
		known[reason] = true
	}
	found := 0
	err := filepath.WalkDir(filepath.Join(root, "pkg", "store"), func(path string, _ fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		for _, m := range reasonOfStore.FindAllStringSubmatch(string(text), -1) {
			if found++; !known[m[1]] {
				t.Errorf("%s: reason %s is none of api.ProblemReasons", path, m[1])
			}
		}
		return err
	})
	if err != nil || found < 15 {
		t.Errorf("%d reasons found, %v: are they written otherwise now?", found, err)
	}
}

// Every problem that a replica can report has its section, where the page and the commands say it is. The runbook leads
// to each of them.
func TestProblemsPage(t *testing.T) {
	const repository = "https://github.com/shardctl/shardctl/blob/main/"
	runbook := read(t, "operations/runbook.md")
	for _, reason := range api.ProblemReasons() {
		page, anchor, _ := strings.Cut(strings.TrimPrefix(snapshot.Runbook(reason), repository), "#")
		if !anchors(read(t, root+"/"+page))[anchor] {
			t.Errorf("%s: there is no such section", snapshot.Runbook(reason))
		}
		if !strings.Contains(runbook, "problems.md#"+anchor+")") {
			t.Errorf("the runbook does not lead to %s", reason)
		}
	}
}
