package history

import "time"

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
