package discover_test

import (
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
