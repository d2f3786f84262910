package status

import (
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
