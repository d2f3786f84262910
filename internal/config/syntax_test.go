package config

import (
	"testing"

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
		"a: ä\nb: ä\xff\n":                     {Line: 2, Col: 4},
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
