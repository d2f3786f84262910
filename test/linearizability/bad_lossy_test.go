package linearizability

import (
	"slices"
	"strings"
	"testing"

	"github.com/shardctl/shardctl/pkg/store/driver"
)

// in puts an access into a lineage.
func in(lineage string, a access) access {
	a.lineage, a.tries = lineage, max(a.tries, 1)
	return a
}

// A loss needs another lineage, goes back to a state that was, and no one goes back to a lineage that has ended.
func TestBadLosses(t *testing.T) {
	t.Parallel()
	created := in("a", put(1, 2, 0, 1, 1, driver.Applied, nil))
	second := in("a", put(3, 4, 1, 2, 2, driver.Applied, nil))
	for name, tc := range map[string]struct{ good, bad []access }{
		"a write is lost": {
			good: []access{created, second, in("b", read(5, 6, doc(1, 1)))},
			bad:  []access{created, second, in("a", read(5, 6, doc(1, 1)))},
		},
		"noted late": {
			good: []access{in("a", read(5, 6, doc(1, 1))), created},
			bad:  []access{in("a", read(5, 6, doc(1, 7))), created},
		},
		"all is lost": {
			good: []access{created, in("b", read(5, 6, nil))},
			bad:  []access{created, in("a", read(5, 6, nil))},
		},
		"what was lost comes back": {
			good: []access{created, second, in("b", read(5, 6, doc(2, 2))), in("b", read(7, 8, doc(2, 2)))},
			bad:  []access{created, second, in("b", read(5, 6, doc(1, 1))), in("b", read(7, 8, doc(2, 2)))},
		},
		"an answer of the old lineage": {
			good: []access{created, in("a", read(5, 6, doc(1, 1))), in("b", read(7, 8, doc(1, 1)))},
			bad:  []access{created, in("b", read(5, 6, doc(1, 1))), in("a", read(7, 8, doc(1, 1)))},
		},
		"a state that never was": {
			good: []access{created, second, in("b", read(5, 6, doc(1, 1)))},
			bad:  []access{created, second, in("b", read(5, 6, doc(1, 7)))},
		},
		"a write without an answer lands after the loss": {
			good: []access{
				created, in("a", put(2, 3, 1, 2, 9, driver.Unknown, nil)), second,
				in("b", read(5, 6, doc(2, 9))),
			},
			bad: []access{
				created, in("a", put(2, 3, 1, 2, 9, driver.Unknown, nil)), second,
				in("a", read(5, 6, doc(2, 9))),
			},
		},
		"a write without an answer lands in three lineages": {
			good: []access{
				created, in("", put(2, 30, 1, 2, 9, driver.Unknown, nil)), in("a", read(5, 6, doc(2, 9))),
				in("b", read(7, 8, doc(1, 1))), in("b", read(9, 10, doc(2, 9))),
				in("c", read(11, 12, doc(1, 1))), in("c", read(13, 14, doc(2, 9))),
			},
			bad: []access{
				created, in("", put(2, 30, 1, 2, 9, driver.Unknown, nil)), in("a", read(5, 6, doc(2, 9))),
				in("b", read(7, 8, doc(1, 1))), in("b", read(9, 10, doc(2, 9))),
				in("c", read(11, 12, doc(1, 1))), in("b", read(13, 14, doc(2, 9))),
			},
		},
		"a write is built upon one of the same revision that no one was shown": {
			good: []access{
				created, second, in("b", read(5, 6, doc(1, 1))), in("", put(7, 8, 1, 2, 9, driver.Unknown, nil)),
				in("b", put(9, 10, 2, 3, 3, driver.Applied, nil)),
			},
			bad: []access{
				created, second, in("b", read(5, 6, doc(1, 1))), in("", put(11, 12, 1, 2, 9, driver.Unknown, nil)),
				in("b", put(9, 10, 2, 3, 3, driver.Applied, nil)),
			},
		},
		"two writes at one revision in one lineage": {
			good: []access{created, second, in("b", put(5, 6, 1, 2, 3, driver.Applied, nil))},
			bad:  []access{created, second, in("a", put(5, 6, 1, 2, 3, driver.Applied, nil))},
		},
	} {
		d := document{kind: driver.KindLock, id: "g/k", history: tc.good}
		if found := d.judge(name, database{loses: true}); len(found) > 0 {
			t.Errorf("%s: the good history is rejected: %s", name, found[0].text)
		}
		d.history = tc.bad
		if len(d.judge(name, database{loses: true})) == 0 {
			t.Errorf("%s: the bad history is accepted", name)
		}
	}
}

// Thirty copies of a write that got no answer do not keep the search from an end.
func TestBadAmongCopies(t *testing.T) {
	t.Parallel()
	history := []access{in("a", put(1, 2, 0, 1, 1, driver.Applied, nil))}
	for i := range int64(15) {
		lost := drop(10*i+3, 10*i+4)
		lost.status = driver.Unknown
		history = append(history, in("", lost), in("", alone(put(10*i+5, 10*i+6, 0, 1, 1, driver.Unknown, nil))))
	}
	history = append(history, in("a", read(200, 201, nil)), in("a", read(202, 203, doc(1, 1))))
	d := document{kind: driver.KindLock, id: "g/k", history: history}
	if found := d.judge("copies", database{loses: true}); len(found) > 0 {
		t.Errorf("the good history is rejected: %s", found[0].text)
	}
	d.history = append(d.history, in("a", read(204, 205, doc(2, 2))))
	found := d.judge("copies", database{loses: true})
	if len(found) != 1 || !strings.Contains(found[0].text, "no order explains it") {
		t.Errorf("the bad history: %v", found)
	}
}

func TestBadLossesOfCounters(t *testing.T) {
	t.Parallel()
	raise := func(lineage string, call, end int64) access {
		return in(lineage, access{verb: increments, call: call, last: call, end: end, status: driver.Applied})
	}
	shows := func(lineage string, call, end, count int64) access {
		return in(lineage, read(call, end, &driver.Doc{Kind: driver.KindGroup, ID: "g", Count: count}))
	}
	two := []access{raise("a", 1, 2), raise("a", 3, 4), shows("a", 5, 6, 2)}
	for name, tc := range map[string]struct{ good, bad access }{
		"a raise is lost":       {shows("b", 7, 8, 1), shows("a", 7, 8, 1)},
		"more than were raised": {shows("b", 7, 8, 0), shows("b", 7, 8, 3)},
	} {
		d := document{kind: driver.KindGroup, id: "g", history: slices.Concat(two, []access{tc.good})}
		if found := d.judge(name, database{loses: true}); len(found) > 0 {
			t.Errorf("%s: the good history is rejected: %s", name, found[0].text)
		}
		d.history = slices.Concat(two, []access{tc.bad})
		if len(d.judge(name, database{loses: true})) == 0 {
			t.Errorf("%s: the bad history is accepted", name)
		}
	}
}
