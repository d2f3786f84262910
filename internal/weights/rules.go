package weights

import (
	"math"
	"slices"
	"strings"
	"time"

	"github.com/shardctl/shardctl/internal/record"
)

// Seen is what is known of one task at a moment.
type Seen struct {
	Lag   record.Lag
	Load  record.Load
	Owner string // the session that owns it; empty: none
	// Since is when it last changed hands, by the store's clock in Unix ms; 0: never, or not known.
	Since int64
}

// Scores are the smoothed scores of a group's tasks by name, as of a moment of the store's clock in Unix ms. The zero
// value knows nothing yet.
type Scores struct {
	At    int64
	Value map[string]float64
	Begun int64 // when the first look was
	// Uneven is the largest load of an owner, in means of all owners; 0: none is known.
	Uneven float64
}

// Score follows what is seen of a group's tasks now, exponentially with the time constant r.Smooth. A task that was not
// seen before begins at the level that is published for it, or at its load. One that is not seen any more is left out,
// and so is one whose load was never measured.
//
// While a task has changed hands less than r.Hold ago, its lag does not raise its score: it catches up with what came
// in between. Its load does not count at all then.
func (r Rules) Score(before Scores, published []Entry, seen map[string]Seen, now int64) Scores {
	levels := Levels(published)
	step := min(max(0, millis(now-before.At)), r.Smooth) // after a long pause no single value decides
	share := -math.Expm1(-step.Seconds() / r.Smooth.Seconds())
	after := Scores{At: now, Begun: before.Begun, Value: make(map[string]float64, len(seen))}
	if before.Begun == 0 || before.Begun > now {
		after.Begun = now
	}
	for name, s := range seen {
		value, known := before.Value[name]
		is, measured := r.measured(s)
		switch {
		case known && measured && !r.held(s, is > value, now):
			value += share * (is - value)
		case !known && r.Of == Lag:
			value = float64(min(max(levels[name], 0), MaxLevel))
		case !known && measured:
			value = is
		case !known:
			continue
		}
		after.Value[name] = value
	}
	if r.Of == Load {
		after.Uneven = unevenness(after.Value, seen)
	}
	return after
}

// measured is what counts of a task's lag, or load; false: it is not known.
func (r Rules) measured(s Seen) (value float64, ok bool) {
	if r.Of == Load {
		return s.Load.Value, s.Load.Known
	}
	return score(s.Lag), true
}

// held says whether a task has changed hands so shortly ago that what is measured does not count.
func (r Rules) held(s Seen, rises bool, now int64) bool {
	return (rises || r.Of == Load) && s.Since > 0 && record.Within(s.Since, now, r.Hold)
}

func millis(ms int64) time.Duration { return time.Duration(ms) * time.Millisecond }

// Measure is what weights follow.
type Measure int

// What weights may follow.
const (
	Lag  Measure = iota // how far a subscription is behind
	Load                // how much work a task is, as was reported or measured
)

// Rules say how weights follow what is measured. Their methods are pure. Use [Measure.Rules].
type Rules struct {
	Of     Measure
	Look   time.Duration // between two looks at what is measured
	Smooth time.Duration // time constant of the smoothing
	Every  time.Duration // least time between two publications of a group
	Hold   time.Duration // how long after a change of hands a lag raises nothing, and a load does not count

	// Of lags: Behind is the score from which a task counts as behind, and Quiet the one below which it does not any
	// more.
	Behind, Quiet float64
	// Again is how long a task has been behind at a level before it gets the next one.
	Again time.Duration
	// Wait is how long a level stays before it falls by one. It doubles, up to MaxWait, each time the level rises again
	// within Memory waits of a fall.
	Wait, MaxWait time.Duration
	Memory        int

	// Of loads: Band is by how many levels a load is off before its level follows.
	Band float64
	// Worth is by how much, in means, an owner's load is above the mean before anything is published.
	Worth float64
}

const maxWait = 12 * time.Hour

// Rules are those that replicas go by.
func (m Measure) Rules() Rules {
	if m == Load {
		return Rules{
			Of: Load, Look: 5 * time.Second, Smooth: 4 * time.Minute, Every: 5 * time.Minute, Hold: 5 * time.Minute,
			Band: 1, Worth: 0.15,
		}
	}
	return Rules{
		Look: 5 * time.Second, Smooth: time.Minute, Every: 30 * time.Second, Hold: 5 * time.Minute,
		Behind: 1, Quiet: 0.5, Again: 5 * time.Minute,
		Wait: 30 * time.Minute, MaxWait: maxWait, Memory: 4,
	}
}

// Entry is what is published of one task. By lag, a task without one has level 0. By load, it was not measured.
type Entry struct {
	Name  string `json:"name"`            // of the task in its group
	Level int    `json:"level,omitempty"` // by lag from 0 to MaxLevel, by load of LevelOfLoad
	// Of lags: when the level last changed, the store's clock in Unix ms.
	Since int64 `json:"since,omitempty"`
	Wait  int64 `json:"wait,omitempty"` // ms that the level stays before it falls
	Fell  bool  `json:"fell,omitempty"` // the last change was a fall
}

// Cleaned implements [published.Part]. An entry of lags may have a level of loads, and the other way round: a group may
// have changed what its weights follow.
func (e Entry) Cleaned(c *record.Cleaner) Entry {
	c.Text("name", &e.Name)
	if e.Level < leastLoad || e.Level > mostLoad {
		c.Bad("level", "%d: want %d to %d", e.Level, leastLoad, mostLoad)
	}
	c.Moment("since", &e.Since)
	c.Number("wait", &e.Wait, maxWait.Milliseconds())
	return e
}

// Levels are the levels of published entries by name.
func Levels(published []Entry) map[string]int {
	levels := make(map[string]int, len(published))
	for _, e := range published {
		levels[e.Name] = e.Level
	}
	return levels
}

// Weight is that of a task with this declared weight and these [Levels].
func (m Measure) Weight(declared int, levels map[string]int, name string) int {
	level, measured := levels[name]
	switch {
	case m == Lag:
		return declared * Factor(level)
	case measured:
		return ofLoad(level)
	default:
		return declared * MeanLoad
	}
}

// Next is what is to be published now, over what was published at a moment; 0: never. Both are the store's clock in
// Unix ms. changed says whether it is worth a publication: a level differs, and the last publication is old enough.
// Entries are in order of names, those published too.
func (r Rules) Next(published []Entry, at int64, s Scores, now int64) (next []Entry, changed bool) {
	if since := millis(now - at); at != 0 && since >= 0 && since < r.Every {
		return published, false
	}
	if r.Of == Load {
		next, changed = r.byLoad(published, s, now)
	} else {
		next, changed = r.byLag(published, s, now)
	}
	if !changed {
		return published, false
	}
	slices.SortFunc(next, func(a, b Entry) int { return strings.Compare(a.Name, b.Name) })
	return next, true
}
