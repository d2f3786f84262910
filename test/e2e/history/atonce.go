package history

import (
	"cmp"
	"slices"
)

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
