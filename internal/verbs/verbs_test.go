package verbs_test

import (
	"strings"
	"testing"

	"github.com/shardctl/shardctl/internal/record"
	"github.com/shardctl/shardctl/internal/verbs"
	"github.com/shardctl/shardctl/pkg/api"
)

// Each row says all that is made from it, and fits the others.
func TestRows(t *testing.T) {
	buttons := map[int]api.Verb{}
	for _, v := range verbs.All() {
		if v.Kind == "" || len(v.Scopes) == 0 || v.Role == 0 || v.Sentence == "" || v.Page.Effect == "" ||
			v.Help.Past == "" || v.Help.Short == "" || !strings.Contains(v.Help.Example, "shardctl "+string(v.Name)) {
			t.Errorf("%s: its row is not complete", v.Name)
		}
		if other, taken := buttons[v.Page.Button]; taken {
			t.Errorf("%s has the place of the button of %s", v.Name, other)
		}
		buttons[v.Page.Button] = v.Name
		if v.Lasts() == v.Kind.Once() && !v.TakesBack() {
			t.Errorf("%s lasts: %v, and so do overrides of its kind: %v", v.Name, v.Lasts(), !v.Kind.Once())
		}
		if back, known := verbs.Find(v.Back); v.Lasts() &&
			(!known || !back.TakesBack() || back.Kind != v.Kind || len(back.Scopes) != len(v.Scopes)) {
			t.Errorf("%s is not taken back by %q", v.Name, v.Back)
		}
		if leaving, known := verbs.Leaving(v.Kind); !known || leaving.TakesBack() ||
			!v.TakesBack() && leaving.Name != v.Name {
			t.Errorf("%s: overrides of the kind %s are left by %q", v.Name, v.Kind, leaving.Name)
		}
	}
}

// The path of a route names what it is about, and ends with the verb.
func TestRoutes(t *testing.T) {
	seen := map[string]bool{}
	for _, r := range verbs.Routes() {
		named := strings.Contains(r.Path, "{name}")
		if seen[r.Path] || !strings.HasSuffix(r.Path, "/"+string(r.Name)) || named == r.Many || !r.About(r.Scope) ||
			r.Many && r.Scope != record.ScopeTask || strings.ContainsAny(r.Summary, "{}") {
			t.Errorf("%+v", r)
		}
		seen[r.Path] = true
	}
	if _, known := verbs.Leaving(record.OverrideResume); known {
		t.Error("a verb leaves the mark of a pause that has ended")
	}
}
