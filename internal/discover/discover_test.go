package discover_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/shardctl/shardctl/internal/discover"
)

var taskName = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._-]{0,248}$`)

func TestTaskNames(t *testing.T) {
	for _, c := range []struct{ name, partition, want string }{
		{"orders", "", "orders"},
		{"orders", "12", "orders-12"},
		{"orders.eu_v2-x", "", "orders.eu_v2-x"},
		{"a/b c", "", "a_2Fb_20c"},
		{"größe", "", "gr_C3_B6_C3_9Fe"},
		{"a_2F", "", "a_5F2F"},
		{"a_2f", "", "a_2f"},
		{"a_", "", "a_5F"},
		{"a_-b", "", "a_5F-b"},
		{"a__b", "", "a__b"},
		{"__DEAD", "", "__5FDEAD"},
		{".hidden", "", "_2Ehidden"},
		{"-x", "0", "_2Dx-0"},
		{strings.Repeat("x", 249), "", strings.Repeat("x", 249)},
		{
			strings.Repeat("x", 250), "",
			strings.Repeat("x", 215) + "_-086d4a1c293bde318dc1fec9a21b9d82",
		},
	} {
		if got := discover.TaskName(c.name, c.partition); got != c.want {
			t.Errorf("%q partition %q: got %q, want %q", c.name, c.partition, got, c.want)
		}
	}
}

// unescape is what a name was made of; false for one that was cut.
func unescape(name string) (string, bool) {
	if strings.Contains(name, "_-") {
		return "", false
	}
	var out strings.Builder
	for i := 0; i < len(name); i++ {
		var c byte
		if n, _ := fmt.Sscanf(name[i:], "_%02X", &c); n == 1 && name[i] == '_' && regexp.MustCompile(
			`^_[0-9A-F]{2}`).MatchString(name[i:]) {
			out.WriteByte(c)
			i += 2
			continue
		}
		out.WriteByte(name[i])
	}
	return out.String(), true
}

// A name says what it was made of, so that no two can have the same.
func TestTaskNamesDiffer(t *testing.T) {
	names := []string{"orders", "ä/ö", "__5F", "_5F5F", strings.Repeat("/", 90), strings.Repeat("/", 91)}
	for last := []string{""}; len(last[0]) < 4; {
		var next []string
		for _, name := range last {
			for _, c := range []string{"_", "-", ".", "/", "2", "F", "a"} {
				next = append(next, name+c)
			}
		}
		names, last = append(names, next...), next
	}
	for _, partition := range []string{"", "1"} {
		of := map[string]string{}
		for _, name := range names {
			made := discover.TaskName(name, partition)
			if !taskName.MatchString(made) {
				t.Errorf("%q is no name of a task", made)
			}
			if other, taken := of[made]; taken && other != name {
				t.Errorf("%q and %q are both called %q", other, name, made)
			}
			of[made] = name
			if partition != "" && made == discover.TaskName(name, "2") {
				t.Errorf("two partitions of %q are called %q", name, made)
			}
			if back, whole := unescape(made); partition == "" && whole && back != name {
				t.Errorf("%q became %q, which is %q", name, made, back)
			}
		}
	}
}

func TestAppendHasALimit(t *testing.T) {
	all := make([]discover.Found, discover.MaxFound)
	if _, err := discover.Append(all, discover.Found{}); err == nil {
		t.Error("one more is taken")
	}
	if all, err := discover.Append(all[:1], discover.Found{Name: "a"}); err != nil || all[1].Name != "a" {
		t.Error(all[1], err)
	}
}

func TestCheck(t *testing.T) {
	found, err := discover.Check([]discover.Found{
		{Name: "b", Partition: "10"}, {Name: "b", Partition: "9"}, {Name: "a", Partition: "0"},
	})
	if err != nil || found[0].Name != "a" || found[1].Partition != "9" || found[2].Partition != "10" {
		t.Errorf("got %v, %v", found, err)
	}
	for want, list := range map[string][]discover.Found{
		`entry 2 (""): name: is empty`:               {{Name: "a"}, {}},
		`"a" is there twice`:                         {{Name: "a"}, {Name: "b"}, {Name: "a", Weight: 3}},
		"either all have a partition or none has":    {{Name: "a", Partition: "1"}, {Name: "b"}},
		`partition: is "01"`:                         {{Name: "a", Partition: "01"}},
		"weight: is -1":                              {{Name: "a", Weight: -1}},
		"is not UTF-8":                               {{Name: "a\xff"}},
		"has 2000 bytes":                             {{Name: strings.Repeat("a", 2000)}},
		`labels.a: is "b c"`:                         {{Name: "a", Labels: map[string]string{"a": "b c"}}},
		`labels: the name "b c"`:                     {{Name: "a", Labels: map[string]string{"b c": ""}}},
		`entry 5 (""): name: is empty (and 1 more)`:  {{}, {}, {}, {}, {}, {}},
		"100001 were found, at most 100000 are read": make([]discover.Found, 100_001),
	} {
		if _, err := discover.Check(list); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

func TestExpandForListers(t *testing.T) {
	env := discover.Env{Group: "g", Lookup: func(name string) (string, bool) { return "of-" + name, name != "UNSET" }}
	if got, err := env.Expand("url", "$(SHARDCTL_GROUP)/$(A)"); err != nil || got != "g/of-A" {
		t.Errorf("%q, %v", got, err)
	}
	for _, text := range []string{"$(UNSET)", "$(SHARDCTL_TASK)"} {
		if _, err := env.Expand("http.url", text); err == nil || !strings.HasPrefix(err.Error(), "http.url: ") {
			t.Errorf("%s: %v", text, err)
		}
	}
}

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
