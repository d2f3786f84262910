package weights

import (
	"math"
	"time"

	"github.com/shardctl/shardctl/internal/record"
)

// MaxLevel is the highest level. A task of level n weighs 2ⁿ times what is declared: from 1 to 8 times.
const MaxLevel = 3

// Factor is how many times its declared weight a task of that level weighs.
func Factor(level int) int { return 1 << min(max(level, 0), MaxLevel) }

// score is a lag as a level, with fractions: 1 for 1,000 messages or 30 s, 2 for 10,000 or 2 min, 3 for 100,000 or 8
// min. The larger of both counts. What is not known counts as nothing.
func score(lag record.Lag) float64 {
	const none, most = 0, MaxLevel + 1 // above the highest level, or a smoothed score would never quite reach it
	if !lag.Known {
		return none
	}
	messages := math.Log10(float64(max(lag.Messages, 1)) / 100)
	seconds := math.Log2(float64(max(lag.Seconds, 1))/7.5) / 2
	return min(max(none, messages, seconds), most)
}

// byLag are the entries that follow from scores. changed says that a level differs.
func (r Rules) byLag(published []Entry, s Scores, now int64) (next []Entry, changed bool) {
	before := make(map[string]Entry, len(published))
	for _, e := range published {
		e.Level = min(max(e.Level, 0), MaxLevel) // it may be that of a load
		before[e.Name] = e
		if _, seen := s.Value[e.Name]; !seen && e.Level > 0 {
			changed = true // the task is gone
		}
	}
	for name, value := range s.Value {
		old := before[name]
		e := r.follow(old, value, now)
		e.Name = name
		changed = changed || e.Level != old.Level || e.Since < old.Since
		if e.Level > 0 || r.remembers(e, now) {
			next = append(next, e)
		}
	}
	return next, changed
}

// follow is the entry of a task after e, the zero Entry if it has none, with this score.
func (r Rules) follow(e Entry, score float64, now int64) Entry {
	e.Since = min(e.Since, now) // the clock may have been set back
	rise, stayed := int(math.Floor(score)), millis(now-e.Since)
	if score >= r.Behind && e.Level > 0 && stayed >= r.Again {
		rise = max(rise, e.Level+1) // this level did not help
	}
	switch {
	case e.Level < min(rise, MaxLevel):
		e.Wait = r.wait(e, now).Milliseconds()
		e.Level, e.Since, e.Fell = min(rise, MaxLevel), now, false
	case e.Level > 0 && score < r.Quiet && stayed >= millis(e.Wait):
		e.Level, e.Since, e.Fell = e.Level-1, now, true
	}
	return e
}

// wait is how long a level is to stay that a task with this entry rises to.
func (r Rules) wait(e Entry, now int64) time.Duration {
	switch {
	case r.remembers(e, now):
		return min(2*millis(e.Wait), r.MaxWait)
	case e.Level > 0 && !e.Fell:
		return millis(e.Wait) // it rose shortly before
	default:
		return r.Wait
	}
}

// remembers says whether a fall is so fresh that a rise counts as its consequence.
func (r Rules) remembers(e Entry, now int64) bool {
	return e.Fell && now-e.Since < int64(r.Memory)*e.Wait
}
