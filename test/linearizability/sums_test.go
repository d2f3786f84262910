package linearizability

import (
	"fmt"
	"slices"
	"testing"

	"github.com/shardctl/shardctl/pkg/store/driver"
)

// judgeSums is for counters that servers count each for itself. No client sees its sum fall. An increment that was
// acknowledged before a read began has raised it above what the client was shown before that increment began.
func (d *document) judgeSums(name string) []finding {
	if wrong := fallen(d.history); wrong != "" {
		return []finding{{text: name + ": " + wrong + "\n" + timeline(d.lines())}}
	}
	return nil
}

func fallen(history []access) string {
	of := map[int][]access{} // reads of each client, in order
	var raised []access
	for _, a := range history {
		switch {
		case a.verb == increments && a.status == driver.Applied:
			raised = append(raised, a)
		case a.verb == reads || a.verb == lists:
			of[a.client] = append(of[a.client], a)
		}
	}
	for client, shown := range of {
		slices.SortFunc(shown, func(a, b access) int { return int(a.call - b.call) })
		for i, later := range shown {
			for _, earlier := range shown[:i] {
				if earlier.end > later.call {
					continue
				}
				if countOf(later) < countOf(earlier) {
					return fmt.Sprintf("client %d sees the counter fall from %d to %d", client, countOf(earlier),
						countOf(later))
				}
				between := func(a access) bool { return earlier.end < a.call && a.end < later.call }
				if countOf(later) == countOf(earlier) && slices.ContainsFunc(raised, between) {
					return fmt.Sprintf("client %d does not see an increment above %d", client, countOf(earlier))
				}
			}
		}
	}
	return ""
}

func countOf(a access) int64 {
	if a.found == nil {
		return 0
	}
	return a.found.Count
}

func TestFallenSums(t *testing.T) {
	read := func(call, end, count int64) access {
		return access{verb: reads, call: call, end: end, shown: true, found: &driver.Doc{Count: count}}
	}
	raise := access{verb: increments, call: 10, end: 20, status: driver.Applied}
	for name, tt := range map[string]struct {
		history []access
		wrong   bool
	}{
		"rises":              {[]access{read(1, 2, 5), raise, read(30, 40, 8)}, false},
		"falls":              {[]access{read(1, 2, 5), read(30, 40, 4)}, true},
		"misses one":         {[]access{read(1, 2, 5), raise, read(30, 40, 5)}, true},
		"read while it was":  {[]access{read(1, 2, 5), raise, read(15, 40, 5)}, false},
		"reads side by side": {[]access{read(1, 20, 5), read(10, 40, 4)}, false},
	} {
		if got := fallen(tt.history); (got != "") != tt.wrong {
			t.Errorf("%s: %q", name, got)
		}
	}
}
