package discover_test

import (
	"strings"
	"testing"

	"github.com/shardctl/shardctl/pkg/tasks/discover"
)

func TestPatterns(t *testing.T) {
	for _, c := range []struct {
		pattern, name string
		want          bool
	}{
		{"orders", "orders", true},
		{"orders", "orders-eu", false},
		{"orders-*", "orders-eu", true},
		{"orders-*", "orders-", true},
		{"orders-*", "my-orders-eu", false},
		{"*", "a/b\nc", true},
		{"a.b", "axb", false},
		{"a?b", "axb", true},
		{"a?b", "ab", false},
		{"/^orders-(eu|us)$/", "orders-us", true},
		{"/^orders-(eu|us)$/", "orders-asia", false},
		{"/eu/", "orders-eu-1", true},
		{"/", "/", true},
		{"//", "//", true},
		{"/a", "/a", true},
	} {
		p, err := discover.ParsePatterns([]string{"never", c.pattern})
		if err != nil {
			t.Errorf("%s: %v", c.pattern, err)
		}
		if got := p.Match(c.name); got != c.want {
			t.Errorf("%q matches %q: %v", c.pattern, c.name, got)
		}
	}
	for _, bad := range []string{"", "/(/"} {
		if _, err := discover.ParsePatterns([]string{bad}); err == nil {
			t.Errorf("%q is a pattern", bad)
		}
	}
}

func TestPatternsOfAField(t *testing.T) {
	env := discover.Env{Lookup: func(name string) (string, bool) {
		value, ok := map[string]string{"GOOD": "orders-*", "BAD": "/hunter2(/"}[name]
		return value, ok
	}}
	patterns, err := env.Patterns("kafka.topics", []string{"a", "$(GOOD)"})
	if err != nil || !patterns.Match("orders-eu") || !patterns.Match("a") || patterns.Match("b") {
		t.Errorf("%v, %v", patterns, err)
	}
	for text, want := range map[string]string{"$(UNSET)": "kafka.topics[0]: ", "$(BAD)": "kafka.topics: must be "} {
		if _, err := env.Patterns("kafka.topics", []string{text}); err == nil ||
			!strings.HasPrefix(err.Error(), want) ||
			strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
	for want, texts := range map[string][]string{
		"": {"a", "$(BAD)", "/^b/"}, "topics": {"/(/"}, "topics.1": {"a", "/(/"},
	} {
		got := ""
		for _, wrong := range discover.ValidatePatterns("topics", texts) {
			got += strings.Join(wrong.Path, ".")
		}
		if got != want {
			t.Errorf("%v: %q, want %q", texts, got, want)
		}
	}
	if wrong := discover.ValidatePatterns("topics", nil); len(wrong) != 1 {
		t.Errorf("no pattern: %v", wrong)
	}
}
