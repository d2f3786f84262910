package alerts

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// dashboard is what matters here of Grafana's format.
type dashboard struct {
	Title         string  `json:"title"`
	UID           string  `json:"uid"`
	SchemaVersion int     `json:"schemaVersion"`
	Panels        []panel `json:"panels"`
	Links         []struct {
		URL string `json:"url"`
	} `json:"links"`
	Templating struct {
		List []variable `json:"list"`
	} `json:"templating"`
}

type variable struct {
	Name        string `json:"name"`
	Type        string `json:"type"`
	Definition  string `json:"definition"`
	Description string `json:"description"`
}

type panel struct {
	ID          int    `json:"id"`
	Type        string `json:"type"`
	Title       string `json:"title"`
	Description string `json:"description"`
	Datasource  source `json:"datasource"`
	GridPos     struct{ X, Y, W, H int }
	FieldConfig struct {
		Defaults struct {
			Unit string `json:"unit"`
		} `json:"defaults"`
	} `json:"fieldConfig"`
	Targets []struct {
		RefID        string `json:"refId"`
		Expr         string `json:"expr"`
		LegendFormat string `json:"legendFormat"`
		Datasource   source `json:"datasource"`
	} `json:"targets"`
}

type source struct {
	Type string `json:"type"`
	UID  string `json:"uid"`
}

// query is an expression with what Grafana replaces replaced.
func query(expr string) string {
	return strings.NewReplacer("$__rate_interval", "5m", "$__range", "1h").Replace(expr)
}

func readDashboard(t *testing.T) dashboard {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(chart, "files/dashboards/shardctl.json"))
	if err != nil {
		t.Fatal(err)
	}
	var d dashboard
	if err := json.Unmarshal(b, &d); err != nil {
		t.Fatal(err)
	}
	return d
}

var legendLabel = regexp.MustCompile(`\{\{ *(\w+) *\}\}`)

func TestDashboardNamesWhatIsThere(t *testing.T) {
	there := whatIsExposed(t)
	for _, p := range readDashboard(t).Panels {
		for _, target := range p.Targets {
			for _, wrong := range there.check(query(target.Expr)) {
				t.Errorf("%s, %s: %s", p.Title, target.RefID, wrong)
			}
			for _, label := range mentioned(legendLabel, target.LegendFormat) {
				if !there.kept(query(target.Expr), label) {
					t.Errorf("%s, %s: the legend shows %s, which the series do not have", p.Title, target.RefID, label)
				}
			}
			if !strings.Contains(target.Expr, `job="$job"`) {
				t.Errorf("%s, %s: not limited to the chosen job: %s", p.Title, target.RefID, target.Expr)
			}
		}
	}
}

var valuesOf = regexp.MustCompile(`^label_values\((.+), *(\w+)\)$`)

func TestVariablesAskForWhatIsThere(t *testing.T) {
	there := whatIsExposed(t)
	var names []string
	for _, v := range readDashboard(t).Templating.List {
		names = append(names, v.Name)
		if v.Description == "" {
			t.Errorf("%s has no description", v.Name)
		}
		if v.Type != "query" {
			continue
		}
		m := valuesOf.FindStringSubmatch(v.Definition)
		if m == nil {
			t.Errorf("%s: not understood: %s", v.Name, v.Definition)
			continue
		}
		for _, wrong := range there.check(m[1]) {
			t.Errorf("%s: %s", v.Name, wrong)
		}
		if metric := metricsIn(m[1])[0]; !there.has(metric, m[2]) {
			t.Errorf("%s: %s has no label %s", v.Name, metric, m[2])
		}
	}
	if want := []string{"datasource", "cluster", "namespace", "job", "group"}; !slices.Equal(names, want) {
		t.Errorf("variables %v, want %v", names, want)
	}
}

// units are those of Grafana's that have been looked up.
var units = []string{"short", "s", "bytes", "ops", "percentunit", "bool_yes_no"}

func TestEveryPanelIsDescribed(t *testing.T) {
	d := readDashboard(t)
	if d.SchemaVersion < 39 || d.UID == "" || d.Title == "" {
		t.Errorf("schema %d, uid %q, title %q", d.SchemaVersion, d.UID, d.Title)
	}
	ids, titles := map[int]bool{}, map[string]bool{}
	for _, p := range d.Panels {
		if ids[p.ID] || titles[p.Title] || p.Title == "" {
			t.Errorf("%d %s: its number and its title should stand once", p.ID, p.Title)
		}
		ids[p.ID], titles[p.Title] = true, true
		if p.Type == "row" {
			continue
		}
		if p.Description == "" || !slices.Contains(units, p.FieldConfig.Defaults.Unit) || len(p.Targets) == 0 {
			t.Errorf(
				"%s: description %q, unit %q, %d queries", p.Title, p.Description, p.FieldConfig.Defaults.Unit,
				len(p.Targets),
			)
		}
		sources := []source{p.Datasource}
		for _, target := range p.Targets {
			sources = append(sources, target.Datasource)
		}
		for _, s := range sources {
			if s != (source{"prometheus", "${datasource}"}) {
				t.Errorf("%s asks %v instead of the chosen data source", p.Title, s)
			}
		}
	}
}

func TestPanelsDoNotOverlap(t *testing.T) {
	panels := readDashboard(t).Panels
	for i, p := range panels {
		a := p.GridPos
		if a.X+a.W > 24 || a.W <= 0 || a.H <= 0 {
			t.Errorf("%s stands at %+v", p.Title, a)
		}
		for _, q := range panels[i+1:] {
			b := q.GridPos
			if a.X < b.X+b.W && b.X < a.X+a.W && a.Y < b.Y+b.H && b.Y < a.Y+a.H {
				t.Errorf("%s and %s overlap", p.Title, q.Title)
			}
		}
	}
}

func TestDashboardShowsEveryMetricOfOurs(t *testing.T) {
	var shown []string
	for _, p := range readDashboard(t).Panels {
		for _, target := range p.Targets {
			shown = append(shown, metricsIn(query(target.Expr))...)
		}
	}
	for name := range whatIsExposed(t) {
		if !strings.HasPrefix(name, "shardctl_") || strings.HasSuffix(name, "_sum") ||
			strings.HasSuffix(name, "_count") {
			continue
		}
		if !slices.Contains(shown, name) {
			t.Errorf("%s is on no panel", name)
		}
	}
}

func TestLinksOfTheDashboardLeadSomewhere(t *testing.T) {
	found := sections(t)
	for _, link := range readDashboard(t).Links {
		_, at, _ := strings.Cut(link.URL, "docs/operations/alerts.md#")
		if _, ok := found[at]; !ok || at == "" {
			t.Errorf("%s: there is no such section", link.URL)
		}
	}
}
