package snapshot

import (
	"fmt"
	"strings"
	"testing"
)

func TestSelector(t *testing.T) {
	labels := map[string]string{"team": "core", "tier": "1"}
	for text, want := range map[string]bool{
		"":                            true,
		"team=core":                   true,
		"team==core":                  true,
		"team = core , tier=1":        true,
		"team=edge":                   false,
		"team!=edge":                  true,
		"team!=core":                  false,
		"zone!=b":                     true,
		"zone=b":                      false,
		"team in (core,edge)":         true,
		"team in (edge)":              false,
		"team in (edge, core),tier=1": true,
		"team notin (edge)":           true,
		"team notin (core,edge)":      false,
		"zone notin (b)":              true,
		"team in(core)":               true,
		"team":                        true,
		"zone":                        false,
		"!zone":                       true,
		"!team":                       false,
		"team,!zone,tier notin (2,3)": true,
		"team=core,tier=2":            false,
		"zone=":                       false,
	} {
		s, err := ParseSelector(text)
		if err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		if got := s.Match(labels); got != want {
			t.Errorf("%q: got %v", text, got)
		}
	}
}

func TestSelectorRefuses(t *testing.T) {
	for _, text := range []string{
		"=a", "a=b=c", "a=b,,c=d", "a in b", "a in (b", "a b", "!", "a in (b c)", ",", "a>1 2",
	} {
		if _, err := ParseSelector(text); err == nil {
			t.Errorf("%q was taken", text)
		} else if !strings.Contains(err.Error(), text) {
			t.Errorf("%q is not named in %v", text, err)
		}
	}
}

// FuzzSelector: a selector is refused with what is wrong with it, or means the same however it is written with blanks.
// Each part of it narrows.
func FuzzSelector(f *testing.F) {
	for _, text := range []string{
		"", "team=core", "team = core , tier=1", "team!=edge", "team in (edge, core),tier=1", "zone notin (b)",
		"team in(core)", "!zone", "a b", ",", "a in b", "a in ((b))", "=", "!",
		"a==b", "a in ()", "a\u00a0in (b)", ")(", "a=b)", "(a,b)",
	} {
		f.Add(text, "team", "core")
	}
	f.Fuzz(func(t *testing.T, text, label, value string) {
		s, err := ParseSelector(text)
		if err != nil {
			if !strings.Contains(err.Error(), "selector") {
				t.Errorf("%q: %v", text, err)
			}
			return
		}
		labels := map[string]string{label: value}
		whole := s.Match(labels)
		for i := range s {
			if whole && !s[i:i+1].Match(labels) {
				t.Errorf("%q matches %v, but not each of its parts does", text, labels)
			}
		}
		again, err := ParseSelector("  " + text + "\t")
		if err != nil || again.Match(labels) != whole {
			t.Errorf("%q with blanks round it: %v, %v", text, err, whole)
		}
	})
}

func ExampleParseSelector() {
	selector, err := ParseSelector("team in (core,edge),!retired")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(selector.Match(map[string]string{"team": "core"}))
	fmt.Println(selector.Match(map[string]string{"team": "core", "retired": "yes"}))
	// Output:
	// true
	// false
}

func TestPatterns(t *testing.T) {
	for _, test := range []struct {
		patterns Patterns
		name     string
		matches  bool
		group    string
	}{
		{nil, "g/a", true, ""},
		{Patterns{"g/a"}, "g/a", true, "g"},
		{Patterns{"g/a"}, "g/ab", false, "g"},
		{Patterns{"g/b", "g/a*"}, "g/ab", true, "g"},
		{Patterns{"g/*", "h/*"}, "h/a", true, ""},
		{Patterns{"*/a"}, "g/a", true, ""},
		{Patterns{"*"}, "g/a", false, ""},
		{Patterns{"a[0]"}, "a[0]", true, ""}, // a name, too
	} {
		if got := test.patterns.Match(test.name); got != test.matches {
			t.Errorf("%q matches %q: %v", test.patterns, test.name, got)
		}
		if got := test.patterns.Group(); got != test.group {
			t.Errorf("%q: of group %q, want %q", test.patterns, got, test.group)
		}
	}
	if err := (Patterns{"a", "b["}).Validate(); err == nil || !strings.Contains(err.Error(), `"b["`) {
		t.Errorf("got %v", err)
	}
}
