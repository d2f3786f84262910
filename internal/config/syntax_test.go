package config

import (
	"bytes"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/shardctl/shardctl/internal/decode"
	"github.com/shardctl/shardctl/internal/kinds"
)

func TestPlacesOfSyntaxErrors(t *testing.T) {
	for text, want := range map[string]decode.Place{
		"a: b: c\nd: 1\n":                      {Line: 1, Col: 5},
		"a: {b: 1\nc: []\nd: {}\n":             {Line: 2, Col: 2},
		"a: 1\nb: [x, [y, z], {c: 1}\nd: 2\n":  {Line: 3, Col: 1},
		"a: 1\nb: @x\nc: 2\n":                  {Line: 2, Col: 4},
		"a: 1\n- b\nc: 2\n":                    {Line: 2, Col: 1},
		"a: \"\\q\"\nb: 1\n":                   {Line: 1, Col: 5},
		"a: 1\n  b: 2\nc: 3\n":                 {Line: 2, Col: 4},
		"a: 1\nb: }\nc: 1\n":                   {Line: 2, Col: 4},
		"a:\n- b\n c: 1\nd: 1\n":               {Line: 3, Col: 3},
		"a: 1\n\tb: 1\nc: 1\n":                 {Line: 2, Col: 1},
		"a: *absent\nb: 1\n":                   {Line: 1, Col: 4},
		"# *absent\na: '*absent'\nb: *absent":  {Line: 3, Col: 4},
		"a: 1\nb: [ä, *absent, *absent]\nc: 2": {Line: 2, Col: 8},
		"a: &x 1\nb: {<<: *absent, c: *x}\n":   {Line: 2, Col: 9},
		"a: 1\nb: \"\x01\"\n":                  {Line: 2, Col: 5},
		"a: ä\nb: ä\xff\n":                     {Line: 2, Col: 5},
		"a: 'it's'\nb: 1\n":                    {Line: 1, Col: 8},
		"a: 1\nb: [\n":                         {Line: 3, Col: 1},
		"a: [1,\n  {b: [2],\n":                 {Line: 3, Col: 1},
		"a: 1\nb: [x, {c: \n# the end\n":       {Line: 4, Col: 1},
		"[":                                    {Line: 2, Col: 1},
		"a: 1\rb: @x\rc: 1\r":                  {Line: 2, Col: 4},
		"a: [x}\n":                             {Line: 1, Col: 6},
		"a: 1\r\nb: @x\r\n":                    {Line: 2, Col: 4},
		"\ufeffa: 1\nb: @x\n":                  {Line: 2, Col: 4},
	} {
		if e := refused(t, text); e.Line != want.Line || e.Col != want.Col {
			t.Errorf("%q: %v, want it in line %d, column %d", text, e, want.Line, want.Col)
		}
	}
}

// A value that is open at the end of the file is refused there, and the message has the place where it begins.
func TestSyntaxErrorsSayWhereTheValueBegins(t *testing.T) {
	for text, want := range map[string]string{
		"a: 1\nb: 'open\nc: 2\n":   "a.yaml:4:1: … a quoted scalar at line 2, column 4",
		"a: 1\nb: \"open\nc: 2\n":  "a.yaml:4:1: … a quoted scalar at line 2, column 4",
		"a: 1\n---\nb: 'x\n":       "a.yaml:4:1: … a quoted scalar at line 3, column 4",
		"a: 1\nb: [x, y\n":         "a.yaml:3:1: … a flow sequence at line 2, column 4",
		"a: {b: 1\nc: []\nd: {}\n": "a.yaml:2:2: … a flow mapping at line 1, column 4",
		"a: 1\nb\nc: 2\n":          "a.yaml:3:1: … a simple key at line 2, column 1",
		"a: 1\nb\n":                "a.yaml:3:1: … a simple key at line 2, column 1",
	} {
		place, begin, _ := strings.Cut(want, "…")
		if got := refused(t, text).Error(); !strings.HasPrefix(got, place) || !strings.HasSuffix(got, begin) {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}

// The place is right, however much stands before it.
func TestPlacesInALargeFile(t *testing.T) {
	for _, n := range []int{1, 2, 10, 538, 2000} {
		for bad, want := range map[string]decode.Place{
			"  - name: [\n": {Line: 1}, "  - name: \"x\n": {Line: 1}, "  - name: {a\n": {Line: 1},
			"  - {name: a, exec: {command: [x}}\n": {Col: 32}, "\t- name: x\n": {}, "  - name: a: b\n": {Col: 11},
			"  - name: 'it's'\n": {Col: 14},
		} {
			e := refused(t, withTasks(n)+bad)
			if e.Line != 2*n+5+want.Line || e.Col != 1+want.Col {
				t.Errorf("%d tasks, then %q: %v, want it in line %d, column %d", n, bad, e, 2*n+5+want.Line, 1+want.Col)
			}
		}
	}
}

// What refusing a file takes grows in proportion to its size. Memory is measured, since a machine may be busy.
func TestHostileFilesTakeMemoryInProportion(t *testing.T) {
	repeat := func(part string) func(int) string {
		return func(size int) string { return strings.Repeat(part, size/len(part)) }
	}
	// The parser keeps buffers for each processor, until the second collection after their use: so there is one
	// processor, and no collection but between two files.
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	const small, factor = 1 << 15, 8
	for name, text := range map[string]func(int) string{
		"tasks":      func(size int) string { return withTasks(size/64) + "  - name: [\n" },
		"flow":       func(size int) string { return "{" + repeat("key: 1, ")(size) },
		"keys":       func(size int) string { return "[" + repeat("a: ")(size) },
		"quote":      func(size int) string { return "a: \"" + repeat("x\n")(size) },
		"plain":      func(size int) string { return "a: " + repeat("x ")(size) + "\nb: [" },
		"literal":    func(size int) string { return "a: |\n" + repeat(" x\n")(size) + "b: [" },
		"comments":   func(size int) string { return repeat("- # c\n")(size) + "- [" },
		"tag":        func(size int) string { return "a: !" + repeat("x")(size) + " b: [" },
		"anchors":    func(size int) string { return repeat("- &a 1\n")(size) + "- *absent" },
		"tabs":       func(size int) string { return "a: 1\n" + repeat("\t")(size) + "b" },
		"sequences":  repeat("["),
		"mappings":   repeat("{a: "),
		"lists":      repeat("- "),
		"keys of ?":  repeat("? "),
		"characters": func(size int) string { return "a: '" + repeat("ä\n")(size) + "\x01" },
	} {
		runtime.GC()
		few := allocated(t, func() { _ = refused(t, text(small)) })
		many := allocated(t, func() { _ = refused(t, text(factor*small)) })
		if many > 2*factor*few {
			t.Errorf("%s: %d bytes are allocated for a file, and %d for one %d times as large", name, few, many, factor)
		}
	}
}

// allocated is how many bytes f allocates once the parser has its buffers.
func allocated(t *testing.T, f func()) uint64 {
	t.Helper()
	_ = refused(t, "[")
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// withTasks is a file of n tasks, which may go on with another one.
func withTasks(n int) string {
	var text bytes.Buffer
	text.WriteString("store: {uri: 'sqlite:a.db'}\ngroups:\n- name: g\n  tasks:\n")
	for i := range n {
		fmt.Fprintf(&text, "  - name: task-%d\n    exec: {command: [./consume, --topic, t%d]}\n", i, i)
	}
	return text.String()
}

// refused parses a file that is not YAML.
func refused(t *testing.T, text string) decode.Error {
	t.Helper()
	p := &decode.Problems{}
	if parse("a.yaml", []byte(text), compiled(kinds.All(), kinds.Listers()), p) != nil || len(p.Errs) != 1 {
		t.Fatalf("%.40q: errors %v, want one", text, p.Errs)
	}
	return p.Errs[0]
}
