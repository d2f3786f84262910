//go:build linux

package chaos

import (
	"testing"
	"time"

	"github.com/shardctl/shardctl/test/e2e/history"
)

// ran is one run of the key k, from and to in seconds.
func ran(instance string, token int64, from, to float64) history.Process {
	return history.Process{
		Header: history.Header{Key: "k", Token: token, Instance: instance, PID: int(from*1000) + 1},
		First:  history.Timestamp{At: second(from)}, Last: history.Timestamp{At: second(to)},
	}
}

func second(s float64) history.Instant { return history.Instant(s * float64(time.Second)) }

func TestJudge(t *testing.T) {
	frozen := []*freeze{{instance: "a", began: second(2), thawed: second(10), woken: second(10.1)}}
	deleted := []deletion{{key: "k", before: second(5), end: second(5.1)}}
	for _, c := range []struct {
		name       string
		runs       []history.Process
		freezes    []*freeze
		deletions  []deletion
		violations int
		excused    int
	}{
		{name: "one after the other", runs: []history.Process{ran("a", 1, 0, 5), ran("b", 2, 6, 9)}},
		{name: "two at once", runs: []history.Process{ran("a", 1, 0, 5), ran("b", 2, 4, 9)}, violations: 1},
		{
			name: "two at once beside a longer one",
			runs: []history.Process{ran("a", 1, 0, 9), ran("b", 2, 4, 6), ran("c", 3, 5, 7)}, violations: 3,
		},
		{name: "a smaller token", runs: []history.Process{ran("a", 2, 0, 5), ran("b", 1, 6, 9)}, violations: 1},
		{name: "the same token", runs: []history.Process{ran("a", 2, 0, 5), ran("b", 2, 6, 9)}, violations: 1},

		{
			name: "seen just after the thaw", runs: []history.Process{ran("a", 1, 0, 10.2), ran("b", 2, 6, 19)},
			freezes: frozen, excused: 1,
		},
		{name: "killed while frozen", runs: []history.Process{ran("a", 1, 0, 2), ran("b", 2, 6, 19)}, freezes: frozen},
		{
			name: "alive too long after the thaw", runs: []history.Process{ran("a", 1, 0, 13), ran("b", 2, 6, 19)},
			freezes: frozen, violations: 1,
		},
		{
			name: "at once before the freeze", runs: []history.Process{ran("a", 1, 0, 2), ran("b", 2, 1, 19)},
			freezes: frozen, violations: 1,
		},
		{
			name: "another than the frozen is to blame",
			runs: []history.Process{ran("b", 1, 0, 10.2), ran("a", 2, 10.05, 19)}, freezes: frozen, violations: 1,
		},
		{
			name: "first seen after the thaw", runs: []history.Process{ran("b", 2, 6, 19), ran("a", 1, 10.1, 10.2)},
			freezes: frozen, excused: 1,
		},

		{
			name: "lock deleted", runs: []history.Process{ran("a", 1, 0, 6.5), ran("b", 2, 5.2, 19)},
			deletions: deleted, excused: 1,
		},
		{
			name: "lock deleted, two for too long", runs: []history.Process{ran("a", 1, 0, 8), ran("b", 2, 5.2, 19)},
			deletions: deleted, violations: 1,
		},
		{
			name: "two before the lock was deleted", runs: []history.Process{ran("a", 1, 0, 5), ran("b", 2, 4.5, 19)},
			deletions: deleted, violations: 1,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			v := Judge(history.New(c.runs), c.freezes, c.deletions)
			excused := 0
			for _, lengths := range v.Excused {
				excused += len(lengths)
			}
			if len(v.Violations) != c.violations || excused != c.excused {
				t.Errorf(
					"%d violations and %d excused, want %d and %d: %+v", len(v.Violations), excused, c.violations,
					c.excused, v,
				)
			}
		})
	}
}
