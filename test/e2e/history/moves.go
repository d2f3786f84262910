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

// LastStart is when the last run that started within [from, to] did; from without any.
func (h *History) LastStart(from, to Instant) Instant {
	last := from
	for _, run := range h.Started(from, to) {
		last = max(last, run.Start)
	}
	return last
}

// FirstStarts are when the first and the last of these keys were started for the first time since then; 0 and since
// where none was.
func (h *History) FirstStarts(keys []string, since Instant) (first, last Instant) {
	last = since
	for _, key := range keys {
		runs := h.runs[key]
		i := slices.IndexFunc(runs, func(r Run) bool { return r.Start >= since })
		if i < 0 {
			continue
		}
		if first == 0 || runs[i].Start < first {
			first = runs[i].Start
		}
		last = max(last, runs[i].Start)
	}
	return first, last
}

// LastSign is the last sign of life of these runs; 0 without any.
func LastSign(runs []Run) (last Instant) {
	for _, run := range runs {
		last = max(last, run.End)
	}
	return last
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

// Slack is how long after its last timestamp a run still counts as owning its key. A process on a busy machine writes
// late, and an instant between two timestamps has an owner.
const Slack = 250 * time.Millisecond

// OwnersAt are the runs that were alive at t, by key. When two were within Slack of it, the one that started last
// counts.
func (h *History) OwnersAt(t Instant) map[string]Run {
	owners := map[string]Run{}
	for key, runs := range h.runs {
		for _, run := range runs {
			if run.Start <= t && run.End.Add(Slack) >= t {
				owners[key] = run
			}
		}
	}
	return owners
}

// Owners are the runs that were alive when the records began to be read, by key. Reading thousands takes longer than
// Slack on a busy machine.
func (h *History) Owners() map[string]Run { return h.OwnersAt(h.read) }

// ByInstance counts owned keys by instance.
func ByInstance(owners map[string]Run) map[string]int {
	counts := map[string]int{}
	for _, run := range owners {
		counts[run.Instance]++
	}
	return counts
}

// Move is a key that one instance ran at one instant and another at a later one. From or To is empty when it did
// not run.
type Move struct {
	Key, From, To string
}

// Moves are the keys whose instance at t2 is not that at t1, in order of key. A restart on one instance is none;
// [History.Started] shows it.
func (h *History) Moves(t1, t2 Instant) []Move {
	before, after := h.OwnersAt(t1), h.OwnersAt(t2)
	var found []Move
	for _, key := range h.Keys() {
		if from, to := before[key].Instance, after[key].Instance; from != to {
			found = append(found, Move{Key: key, From: from, To: to})
		}
	}
	return found
}
