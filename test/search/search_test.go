package search_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/shardctl/shardctl/test/search"
)

// steps add one or double, up to 100.
func steps(bad int) search.Space[int, string] {
	return search.Space[int, string]{
		Name: func(s *int) search.Digest { return search.Value(*s) },
		Each: func(_ *int, visit func(string)) { visit("add"); visit("double") },
		Do: func(s *int, a string) (int, string) {
			to := *s + 1
			if a == "double" {
				to = *s * 2
			}
			if to == bad {
				return to, fmt.Sprint("reached ", to)
			}
			return min(to, 100), ""
		},
	}
}

func TestRun(t *testing.T) {
	s := search.Search[int, string]{Space: steps(10), Limit: 1000}
	s.Run(1)
	if want := []string{"add", "double", "add", "double"}; s.Broken != "reached 10" || !slices.Equal(s.Way(), want) {
		t.Errorf("%s by %v, want the shortest way: %v", s.Broken, s.Way(), want)
	}
	all := search.Search[int, string]{Space: steps(-1), Limit: 1000}
	if all.Run(1); !all.Whole || all.States != 100 || all.Broken != "" {
		t.Errorf("%d states, whole %t, %q; want 100, all", all.States, all.Whole, all.Broken)
	}
	few := search.Search[int, string]{Space: steps(-1), Limit: 5}
	if few.Run(1); few.Whole || few.States < 5 || few.States > 6 {
		t.Errorf("%d states, whole %t; want it to stop at 5", few.States, few.Whole)
	}
	if search.Bytes([]byte("a")) == search.Bytes([]byte("b")) {
		t.Error("two states have one name")
	}
}
