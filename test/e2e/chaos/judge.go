//go:build linux

package chaos

import (
	"fmt"
	"strings"
	"time"

	"github.com/shardctl/shardctl/test/e2e/history"
)

// afterThaw is how long, after the guard of a frozen replica has been asked to go on, its old runs may be seen. It is
// generous, since the machine is busy; what was seen is printed.
const afterThaw = 2 * time.Second

// afterDeletion is how long two may run a key whose lock was deleted manually: promised in design §2.
const afterDeletion = Lease / 2

// Violation is something that must never be.
type Violation struct {
	Key  string // empty: of no key
	At   history.Instant
	Text string
}

// Verdict is what the records say of a chaos test.
type Verdict struct {
	Violations []Violation
	Runs       int
	Assigned   int           // of Runs, those by applications
	Moves      int           // consecutive runs of a key on two instances
	Gap        time.Duration // between runs of a key that was never off the list
	Ran        time.Duration // all runs together
	// Excused are overlaps that no lease can prevent, by the reason, and the longest time that a run lived on beside
	// its successor.
	Excused map[string][]time.Duration
}

// Judge judges records, knowing what the faults were.
func Judge(h *history.History, freezes []*freeze, deletions []deletion) Verdict {
	j := judge{freezes: freezes, deletions: deletions, v: Verdict{Excused: map[string][]time.Duration{}}}
	for _, key := range h.Keys() {
		runs := h.Runs(key)
		j.v.Runs += len(runs)
		if strings.HasPrefix(key, assignedGroup+"/") {
			j.v.Assigned += len(runs)
		}
		for i, run := range runs {
			j.v.Ran += run.End.Sub(run.Start)
			if i > 0 {
				j.follow(runs[i-1], run)
			}
			for _, other := range runs[:i] {
				j.pair(other, run)
			}
		}
	}
	j.tokens(h)
	return j.v
}

type judge struct {
	freezes   []*freeze
	deletions []deletion
	v         Verdict
}

func (j *judge) follow(old, run history.Run) {
	if old.Instance != run.Instance {
		j.v.Moves++
	}
	if alwaysListed(run.Key) {
		j.v.Gap = max(j.v.Gap, run.Start.Sub(old.End))
	}
}

// span is a time in which a run was there.
type span struct{ from, to history.Instant }

// spans are the times in which a run could work: a frozen one cannot.
func (j *judge) spans(run history.Run) []span {
	spans := []span{{run.Start, run.End}}
	for _, z := range j.freezes {
		last := spans[len(spans)-1]
		if z.instance != run.Instance || z.thawed == 0 || last.from >= z.thawed || last.to <= z.began {
			continue
		}
		spans = spans[:len(spans)-1]
		if last.from < z.began {
			spans = append(spans, span{last.from, z.began})
		}
		if last.to >= z.thawed {
			spans = append(spans, span{z.thawed, last.to})
		}
	}
	return spans
}

// pair holds two runs of a key against each other.
func (j *judge) pair(a, b history.Run) {
	if b.Start > a.End {
		return // the usual case
	}
	for _, x := range j.spans(a) {
		for _, y := range j.spans(b) {
			both := span{max(x.from, y.from), min(x.to, y.to)}
			if both.from > both.to {
				continue
			}
			j.overlap(a, b, both)
		}
	}
}

func (j *judge) overlap(a, b history.Run, both span) {
	older := a
	if b.Token < a.Token {
		older = b
	}
	length := both.to.Sub(both.from)
	for _, z := range j.freezes {
		if z.excuses(older.Instance, both) {
			j.v.Excused["after the thaw of a frozen replica"] = append(
				j.v.Excused["after the thaw of a frozen replica"], max(0, both.to.Sub(z.woken)),
			)
			return
		}
	}
	for _, d := range j.deletions {
		if d.key == a.Key && both.from >= d.before && both.from <= d.end.Add(afterDeletion) && length <= afterDeletion {
			j.v.Excused["lock deleted under its owner"] = append(j.v.Excused["lock deleted under its owner"], length)
			return
		}
	}
	j.v.Violations = append(
		j.v.Violations,
		Violation{Key: a.Key, At: both.from, Text: fmt.Sprintf("%v and %v ran at once for %v", a, b, length)},
	)
}

// excuses says whether something seen of an instance is of the moment after its thaw.
func (z *freeze) excuses(instance string, seen span) bool {
	return z.instance == instance && z.thawed != 0 && seen.from >= z.thawed && seen.to <= z.woken.Add(afterThaw)
}

// tokens holds the tokens of each key against each other, in order of the first timestamps. A command that was started
// and had not recorded anything yet when its replica was frozen does so once it has thawed.
func (j *judge) tokens(h *history.History) {
	for _, fault := range h.TokenFaults() {
		first := span{fault.Later.Start, fault.Later.Start}
		excused := false
		for _, z := range j.freezes {
			excused = excused || z.excuses(fault.Later.Instance, first) && fault.Later.Token != fault.Earlier.Token
		}
		if !excused {
			j.v.Violations = append(
				j.v.Violations,
				Violation{Key: fault.Later.Key, At: fault.Later.Start, Text: "tokens: " + fault.String()},
			)
		}
	}
}
