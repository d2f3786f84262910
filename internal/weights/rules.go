package weights

import (
	"math"
	"slices"
	"strings"
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

// Rules say how weights follow lags. Their methods are pure. Use [DefaultRules].
type Rules struct {
	Look   time.Duration // between two looks at the lags
	Smooth time.Duration // time constant of the smoothing
	Every  time.Duration // least time between two publications of a group
	Hold   time.Duration // how long after a change of hands a lag raises nothing
	// Behind is the score from which a task counts as behind, and Quiet the one below which it does not any more.
	Behind, Quiet float64
	// Again is how long a task has been behind at a level before it gets the next one.
	Again time.Duration
	// Wait is how long a level stays before it falls by one. It doubles, up to MaxWait, each time the level rises again
	// within Memory waits of a fall.
	Wait, MaxWait time.Duration
	Memory        int
}

// DefaultRules are those that replicas go by.
func DefaultRules() Rules {
	return Rules{
		Look: 5 * time.Second, Smooth: time.Minute, Every: 30 * time.Second, Hold: 5 * time.Minute,
		Behind: 1, Quiet: 0.5, Again: 5 * time.Minute,
		Wait: 30 * time.Minute, MaxWait: 12 * time.Hour, Memory: 4,
	}
}

// Entry is what is published of one task. A task without one has level 0.
type Entry struct {
	Name  string `json:"name"`            // of the task in its group
	Level int    `json:"level,omitempty"` // 0 to MaxLevel
	Since int64  `json:"since"`           // when the level last changed, the store's clock in Unix ms
	Wait  int64  `json:"wait"`            // ms that the level stays before it falls
	Fell  bool   `json:"fell,omitempty"`  // the last change was a fall
}

// Levels are the levels of published entries by name; 0 for others.
func Levels(published []Entry) map[string]int {
	levels := make(map[string]int, len(published))
	for _, e := range published {
		levels[e.Name] = min(max(e.Level, 0), MaxLevel)
	}
	return levels
}

// Next is what is to be published now, over what was published at a moment; 0: never. Both are the store's clock in
// Unix ms. changed says whether it is worth a publication: a level differs, and the last publication is old enough.
// Entries are in order of names, those published too.
func (r Rules) Next(published []Entry, at int64, s Scores, now int64) (next []Entry, changed bool) {
	if since := millis(now - at); at != 0 && since >= 0 && since < r.Every {
		return published, false
	}
	before := make(map[string]Entry, len(published))
	for _, e := range published {
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
	if !changed {
		return published, false
	}
	slices.SortFunc(next, func(a, b Entry) int { return strings.Compare(a.Name, b.Name) })
	return next, true
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
