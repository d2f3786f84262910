package history

import (
	"fmt"
	"math"
	"slices"
	"time"
)

// Gap is the time between two consecutive runs of a key in which it did not run. It is negative when they overlapped.
type Gap struct {
	Old, New Run
	Length   time.Duration
}

// Gaps are those whose later run started within [from, to], in order of key and start.
func (h *History) Gaps(from, to Instant) []Gap {
	var found []Gap
	for _, key := range h.Keys() {
		runs := h.runs[key]
		for i, run := range runs {
			if i > 0 && run.Start >= from && run.Start <= to {
				found = append(found, Gap{Old: runs[i-1], New: run, Length: run.Start.Sub(runs[i-1].End)})
			}
		}
	}
	return found
}

// Lengths are the lengths of gaps.
func Lengths(gaps []Gap) []time.Duration {
	lengths := make([]time.Duration, 0, len(gaps))
	for _, gap := range gaps {
		lengths = append(lengths, gap.Length)
	}
	return lengths
}

// Percentile is the smallest of the durations that at least p percent (0 < p ≤ 100) are not longer than; 0 without any.
func Percentile(durations []time.Duration, p float64) time.Duration {
	if len(durations) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(durations))
	rank := int(math.Ceil(p / 100 * float64(len(sorted))))
	return sorted[max(rank, 1)-1]
}

// Summary is a line with the number of durations and their percentiles in milliseconds.
func Summary(durations []time.Duration) string {
	ms := func(p float64) float64 { return float64(Percentile(durations, p).Microseconds()) / 1000 }
	return fmt.Sprintf(
		"n=%d p50=%.1fms p90=%.1fms p99=%.1fms max=%.1fms", len(durations), ms(50), ms(90), ms(99), ms(100),
	)
}
