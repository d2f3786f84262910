package listers

import (
	"strings"
	"testing"

	"github.com/shardctl/shardctl/internal/discover"
)

func TestLists(t *testing.T) {
	const json = `["orders", {"name": "a b", "partition": 3, "labels": {"team": "core"}, "weight": 2}]`
	want := []discover.Found{
		{Name: "orders"}, {Name: "a b", Partition: "3", Labels: map[string]string{"team": "core"}, Weight: 2},
	}
	same := func(got []discover.Found, err error) {
		t.Helper()
		if err != nil || len(got) != 2 || !got[0].Same(want[0]) || !got[1].Same(want[1]) {
			t.Errorf("got %+v, %v", got, err)
		}
	}
	same(readJSON(strings.NewReader(json)))
	same(readYAML(strings.NewReader(json)))
	same(readYAML(strings.NewReader("- orders\n- name: a b\n  partition: 3\n  labels: {team: core}\n  weight: 2\n")))
	lines, err := readLines(strings.NewReader("# topics\n\n orders \r\na b\n"))
	if err != nil || len(lines) != 2 || lines[0].Name != "orders" || lines[1].Name != "a b" {
		t.Errorf("lines are %+v", lines)
	}
	for _, empty := range []string{"[]", " [ ] \n"} {
		if got, err := readJSON(strings.NewReader(empty)); err != nil || len(got) != 0 {
			t.Errorf("%q: %v, %v", empty, got, err)
		}
	}
	if got, err := readYAML(strings.NewReader("[]")); err != nil || len(got) != 0 {
		t.Errorf("%v, %v", got, err)
	}
}

// Whatever is not clearly a list is an error: nothing may vanish because of it.
func TestMalformedLists(t *testing.T) {
	for _, text := range []string{
		"", "null", "{}", `"a"`, `["a"`, `["a"] ["b"]`, `[1]`, `[["a"]]`, `[{"nam": "a"}]`,
		`[{"name": "a", "weight": 0}]`,
		`[{"name": "a", "partition": "x"}]`, "<html>",
	} {
		if got, err := readJSON(strings.NewReader(text)); err == nil {
			t.Errorf("JSON %q is %v", text, got)
		}
	}
	for _, text := range []string{
		"", "# nothing", "a: b", "a", "- [a]", "- {nam: a}", "- a\n---\n- b", "- {name: a, weight: 0}", "- a\n b: [",
	} {
		if got, err := readYAML(strings.NewReader(text)); err == nil {
			t.Errorf("YAML %q is %v", text, got)
		}
	}
}
