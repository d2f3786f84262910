package config

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/shardctl/shardctl/internal/kinds"
	"github.com/shardctl/shardctl/pkg/tasks/decode"
)

// The YAML reader names a line at most, and often the one where the broken mapping begins.
func TestPlacesOfSyntaxErrors(t *testing.T) {
	for text, want := range map[string]decode.Place{
		"a: b: c\nd: 1\n":                      {Line: 1, Col: 5},
		"a: 1\nb: 'open\nc: 2\n":               {Line: 2, Col: 4},
		"a: 1\nb: \"open\nc: 2\n":              {Line: 2, Col: 4},
		"a: {b: 1\nc: []\nd: {}\n":             {Line: 2, Col: 1},
		"a: 1\nb: [x, y\n":                     {Line: 2, Col: 4},
		"a: 1\nb: [x, [y, z], {c: 1}\nd: 2\n":  {Line: 3, Col: 1},
		"a: 1\nb: @x\nc: 2\n":                  {Line: 2, Col: 4},
		"a: 1\n- b\nc: 2\n":                    {Line: 2, Col: 1},
		"a: \"\\q\"\nb: 1\n":                   {Line: 1, Col: 5},
		"a: 1\nb\nc: 2\n":                      {Line: 2, Col: 1},
		"a: 1\n  b: 2\nc: 3\n":                 {Line: 2, Col: 4},
		"a: 1\nb: }\nc: 1\n":                   {Line: 2, Col: 4},
		"a:\n- b\n c: 1\nd: 1\n":               {Line: 3, Col: 3},
		"a: 1\n---\nb: 'x\n":                   {Line: 3, Col: 4},
		"a: 1\n\tb: 1\nc: 1\n":                 {Line: 2, Col: 1},
		"a: *absent\nb: 1\n":                   {Line: 1, Col: 4},
		"# *absent\na: '*absent'\nb: *absent":  {Line: 3, Col: 4},
		"a: 1\nb: [ä, *absent, *absent]\nc: 2": {Line: 2, Col: 8},
		"a: &x 1\nb: {<<: *absent, c: *x}\n":   {Line: 2, Col: 9},
		"a: 1\nb: \"\x01\"\n":                  {Line: 2, Col: 5},
		"a: ä\nb: ä\xff\n":                     {Line: 2, Col: 5},
		"a: 'it's'\nb: 1\n":                    {Line: 1, Col: 8},
		"a: 1\nb: [\n":                         {Line: 2, Col: 4},
		"a: [1,\n  {b: [2],\n":                 {Line: 2, Col: 3},
		"a: 1\nb: [x, {c: \n# the end\n":       {Line: 2, Col: 8},
		"[":                                    {Line: 1, Col: 1},
		"a: 1\rb: @x\rc: 1\r":                  {Line: 2, Col: 4},
		"a: [x}\n":                             {Line: 1, Col: 6},
		"a: 1\nb\n":                            {Line: 2, Col: 1},
		"a: 1\r\nb: @x\r\n":                    {Line: 2, Col: 4},
		"\ufeffa: 1\nb: @x\n":                  {Line: 2, Col: 4},
	} {
		p := &decode.Problems{}
		if parse("a.yaml", []byte(text), compiled(kinds.All(), kinds.Listers()), p) != nil || len(p.Errs) != 1 {
			t.Errorf("%q: errors %v, want one", text, p.Errs)
			continue
		}
		if e := p.Errs[0]; e.Line != want.Line || e.Col != want.Col {
			t.Errorf("%q: %v, want it in line %d, column %d", text, e, want.Line, want.Col)
		}
	}
}

// What is wrong is told where it is, however much stands before it: a list of tasks has a great many places where it
// could end.
func TestPlacesInALargeFile(t *testing.T) {
	for _, n := range []int{1, 2, 10, 538, 2000} {
		for bad, col := range map[string]int{
			"  - name: [\n": 11, "  - name: \"x\n": 11, "  - {name: a, exec: {command: [x}}\n": 33, "\t- name: x\n": 1,
			"  - name: a: b\n": 12, "  - name: 'it's'\n": 15, "  - name: {a\n": 11,
		} {
			_, _, e := placing(t, n, bad)
			if e.Line != 2*n+5 || e.Col != col {
				t.Errorf("%d tasks, then %q: %v, want it in line %d, column %d", n, bad, e, 2*n+5, col)
			}
		}
	}
}

// placing reads a file of n tasks, and then a line that is not YAML.
func placing(t *testing.T, n int, bad string) (reading, finding time.Duration, e decode.Error) {
	t.Helper()
	var text bytes.Buffer
	text.WriteString("store: {uri: 'sqlite:a.db'}\ngroups:\n- name: g\n  tasks:\n")
	for i := range n {
		fmt.Fprintf(&text, "  - name: task-%d\n    exec: {command: [./consume, --topic, t%d]}\n", i, i)
	}
	text.WriteString(bad)
	decoder := yaml.NewDecoder(bytes.NewReader(text.Bytes()))
	began := time.Now()
	err := decoder.Decode(&yaml.Node{})
	if err == nil {
		t.Fatalf("%q is taken", bad)
	}
	read := time.Now()
	e = syntaxError("a.yaml", text.Bytes(), decoder, err)
	return read.Sub(began), time.Since(read), e
}

// To find a place takes no longer than to read the file a few times.
func TestPlacesTakeNoSearch(t *testing.T) {
	const longest = time.Duration(1<<63 - 1)
	reading, finding := longest, longest
	for range 5 { // the best of several: a machine may be busy
		r, f, _ := placing(t, 2000, "  - name: [\n")
		reading, finding = min(reading, r), min(finding, f)
	}
	if finding > 10*reading {
		t.Errorf("finding the place takes %v, reading the file %v", finding, reading)
	}
}
