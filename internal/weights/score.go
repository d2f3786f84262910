package weights

import (
	"math"
	"time"

	"github.com/shardctl/shardctl/pkg/elect/record"
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

// Seen is what is known of one task at a moment.
type Seen struct {
	Lag record.Lag
	// Since is when it last changed hands, by the store's clock in Unix ms; 0: never, or not known.
	Since int64
}

// Scores are the smoothed scores of a group's tasks by name, as of a moment of the store's clock in Unix ms. The zero
// value knows nothing yet.
type Scores struct {
	At    int64
	Value map[string]float64
}

// Score follows what is seen of a group's tasks now, exponentially with the time constant r.Smooth. A task that was not
// seen before begins at the level that is published for it. One that is not seen any more is left out.
//
// While a task has changed hands less than r.Hold ago, its score does not rise: it catches up with what came in
// between.
func (r Rules) Score(before Scores, published []Entry, seen map[string]Seen, now int64) Scores {
	levels := Levels(published)
	step := min(max(0, millis(now-before.At)), r.Smooth) // after a long pause no single lag decides
	share := -math.Expm1(-step.Seconds() / r.Smooth.Seconds())
	after := Scores{At: now, Value: make(map[string]float64, len(seen))}
	for name, s := range seen {
		old, known := before.Value[name]
		if !known {
			old = float64(levels[name])
		}
		is := score(s.Lag)
		if is > old && s.Since > 0 && millis(now-s.Since) < r.Hold {
			is = old
		}
		if known {
			old += share * (is - old)
		}
		after.Value[name] = old
	}
	return after
}

func millis(ms int64) time.Duration { return time.Duration(ms) * time.Millisecond }
