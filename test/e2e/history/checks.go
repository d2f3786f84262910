package history

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// Overlap is two runs of a key that were alive at once.
type Overlap struct {
	Earlier, Later Run
	For            time.Duration
}

func (o Overlap) String() string {
	return fmt.Sprintf("%v and %v ran at once for %v", o.Earlier, o.Later, o.For)
}

// Overlaps are all pairs of runs of a key that were alive at once. Children count: a child that records after the next
// run has started is one.
func (h *History) Overlaps() []Overlap {
	var found []Overlap
	for _, key := range h.Keys() {
		runs := h.runs[key]
		for i, run := range runs {
			for _, earlier := range runs[:i] {
				if run.Start <= earlier.End {
					both := min(earlier.End, run.End).Sub(run.Start)
					found = append(found, Overlap{Earlier: earlier, Later: run, For: both})
				}
			}
		}
	}
	return found
}

// TokenFault is a run whose token is not larger than that of every run before it.
type TokenFault struct {
	Earlier, Later Run
}

func (f TokenFault) String() string {
	return fmt.Sprintf("%v started after %v", f.Later, f.Earlier)
}

// TokenFaults are all starts with a token that is not new. It is empty when the tokens of every key strictly increase.
func (h *History) TokenFaults() []TokenFault {
	var found []TokenFault
	for _, key := range h.Keys() {
		runs := h.runs[key]
		largest := runs[0]
		for _, run := range runs[1:] {
			if run.Token <= largest.Token {
				found = append(found, TokenFault{Earlier: largest, Later: run})
				continue
			}
			largest = run
		}
	}
	return found
}

// Most is the largest number of keys that an instance had alive at once, and since when.
type Most struct {
	Keys int
	At   Instant
}

// MostAtOnce is that number for each instance, over the whole record. A run counts from its first timestamp to its
// last, those included; its children count as well. Runs of one key at once count once.
func (h *History) MostAtOnce() map[string]Most {
	type edge struct {
		at    Instant
		begin bool
		run   Run
	}
	var edges []edge
	for _, runs := range h.runs {
		for _, run := range runs {
			edges = append(edges, edge{run.Start, true, run}, edge{run.End, false, run})
		}
	}
	slices.SortFunc(edges, func(a, b edge) int {
		if a.at == b.at && a.begin != b.begin {
			return map[bool]int{true: -1, false: 1}[a.begin] // a run that begins as another ends is beside it
		}
		return cmp.Compare(a.at, b.at)
	})
	alive, most := map[string]map[string]int{}, map[string]Most{}
	for _, e := range edges {
		keys := alive[e.run.Instance]
		if keys == nil {
			keys = map[string]int{}
			alive[e.run.Instance] = keys
		}
		if e.begin {
			keys[e.run.Key]++
			if len(keys) > most[e.run.Instance].Keys {
				most[e.run.Instance] = Most{len(keys), e.at}
			}
		} else if keys[e.run.Key]--; keys[e.run.Key] == 0 {
			delete(keys, e.run.Key)
		}
	}
	return most
}

// Hole is a time in which a key did not run.
type Hole struct{ From, To Instant }

// Holes are those of a key up to an instant, in order. One that never ran has one that has always been.
func (h *History) Holes(key string, until Instant) []Hole {
	var found []Hole
	end := Instant(0)
	for _, run := range h.runs[key] {
		if run.Start > end {
			found = append(found, Hole{end, run.Start})
		}
		end = max(end, run.End)
	}
	if end < until {
		found = append(found, Hole{end, until})
	}
	return found
}
