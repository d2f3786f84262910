package history

import (
	"fmt"
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
