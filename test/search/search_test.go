package search_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/shardctl/shardctl/test/search"
)

// pair is a state with padding, of a size that is no whole number of words.
type pair struct {
	a, b int32
	c    bool
}

// steps add one or double, up to 100.
func steps(bad int32) search.Space[pair, string] {
	return search.Space[pair, string]{
		Packing: search.FixedSize[pair](),
		Each:    func(_ *pair, visit func(string)) { visit("add"); visit("double") },
		Do: func(s *pair, a string, to *pair) (step search.Step) {
			*to = pair{a: s.a + 1}
			if a == "double" {
				to.a = s.a * 2
			}
			if to.a == bad {
				step.Broken = fmt.Sprint("reached ", to.a)
			}
			step.Beyond = to.a > 100
			return step
		},
	}
}

func TestRun(t *testing.T) {
	s := search.Search[pair, string]{Space: steps(10), Limit: 1000}
	s.Run(pair{a: 1})
	if want := []string{"add", "double", "add", "double"}; s.Broken != "reached 10" || !slices.Equal(s.Way(), want) {
		t.Errorf("%s by %v, want the shortest way: %v", s.Broken, s.Way(), want)
	}
	all := search.Search[pair, string]{Space: steps(-1), Limit: 1000}
	if all.Run(pair{a: 1}); !all.Whole() || all.States != 100 || all.Broken != "" || all.Beyond != 51 {
		t.Errorf("%d states, whole %t, %q, %d beyond; want 100, all, 51 beyond", all.States, all.Whole(), all.Broken,
			all.Beyond)
	}
	few := search.Search[pair, string]{Space: steps(-1), Limit: 5}
	if few.Run(pair{a: 1}); few.Whole() || few.States != 5 || few.Left == 0 {
		t.Errorf("%d states, %d left, whole %t; want it to stop at 5", few.States, few.Left, few.Whole())
	}
	ends := search.Search[pair, string]{Space: steps(-1), Limit: 1000}
	ends.Ends = func(s *pair) string {
		if s.a == 3 {
			return "ends at 3"
		}
		return ""
	}
	ends.Run(pair{a: 1})
	if want := []string{"add", "add"}; !ends.Later || ends.Broken != "ends at 3" || !slices.Equal(ends.Way(), want) {
		t.Errorf("%q later %t, by %v; want %v", ends.Broken, ends.Later, ends.Way(), want)
	}
}

func TestFixedSize(t *testing.T) {
	p := search.FixedSize[pair]()
	for _, s := range []pair{{}, {a: 1}, {b: -1}, {c: true}, {a: 1, b: 2, c: true}} {
		got := pair{a: 9, b: 9, c: true}
		if p.Unpack(p.Pack(nil, &s), &got); got != s {
			t.Errorf("%+v is packed and unpacked to %+v", s, got)
		}
	}
	defer func() {
		if recover() == nil {
			t.Error("a state that points elsewhere is packed")
		}
	}()
	search.FixedSize[struct{ s []int }]()
}
