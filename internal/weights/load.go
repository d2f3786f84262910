package weights

import "math"

// MeanLoad is the weight of a task whose load is the mean of its group's. One that was not measured weighs that times
// its declared weight.
const MeanLoad = 100

// Levels of loads are logarithms: level n stands for 2^(n/8) times the mean of the group.
const (
	perDoubling = 8
	leastLoad   = -6 * perDoubling // a 64th of the mean
	mostLoad    = 12 * perDoubling // 4,096 times the mean
)

// levelOf is a load as a level, with fractions.
func levelOf(load, mean float64) float64 {
	return min(max(leastLoad, perDoubling*math.Log2(load/mean)), mostLoad)
}

// ofLoad is the weight of a task whose load has this level.
func ofLoad(level int) int {
	level = min(max(level, leastLoad), mostLoad)
	return int(math.Round(MeanLoad * math.Exp2(float64(level)/perDoubling)))
}

// byLoad are the entries that follow from loads. A level is published again when its load is off by r.Band. That is
// worth it only while an owner has too much: else the same keys may stay where they are, whatever they weigh.
func (r Rules) byLoad(published []Entry, s Scores, now int64) (next []Entry, changed bool) {
	mean := s.mean()
	if mean <= 0 || s.Uneven <= 1+r.Worth || millis(now-s.Begun) < r.Smooth {
		return nil, false
	}
	before := Levels(published)
	for name, load := range s.Value {
		level, known := before[name]
		is := levelOf(load, mean)
		if !known || math.Abs(is-float64(level)) >= r.Band {
			level, changed = int(math.Round(is)), true
		}
		next = append(next, Entry{Name: name, Level: level})
	}
	return next, changed || len(next) != len(published)
}

func (s Scores) mean() float64 {
	sum := 0.0
	for _, load := range s.Value {
		sum += load
	}
	return sum / float64(max(1, len(s.Value)))
}

// unevenness is the largest load of an owner, in means of all owners; 0: there is none.
func unevenness(loads map[string]float64, seen map[string]Seen) float64 {
	owned, total, most := map[string]float64{}, 0.0, 0.0
	for name, load := range loads {
		if owner := seen[name].Owner; owner != "" {
			owned[owner] += load
			total += load
			most = max(most, owned[owner])
		}
	}
	if total <= 0 {
		return 0
	}
	return most * float64(len(owned)) / total
}
