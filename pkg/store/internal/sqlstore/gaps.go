package sqlstore

import (
	"maps"
	"slices"
	"time"
)

const (
	// gapKept is how long a number that is not there is asked for. A transaction that takes longer than that is noticed
	// only by those who look at intervals.
	gapKept = time.Minute
	// maxGaps is how many are asked for. With more than that, everything is to be looked at.
	maxGaps = 500
)

// place is how far a watch has read the log. Lines are numbered before their transactions commit. So a smaller number
// may turn up after a larger one, where several clients write at once. Where no one has several writers there are no
// gaps.
type place struct {
	last int64               // the largest number that was read
	gaps map[int64]time.Time // smaller ones that were not, and since when
}

// read notes that a line was read. False: it was read before.
func (p *place) read(number int64, now time.Time) bool {
	if number <= p.last {
		_, gap := p.gaps[number]
		delete(p.gaps, number)
		return gap
	}
	for missing := max(p.last+1, number-maxGaps-1); missing < number; missing++ {
		p.gaps[missing] = now
	}
	p.last = number
	return true
}

// asked are the gaps, from the smallest to the largest. Those that are too old are forgotten.
func (p *place) asked(now time.Time) []int64 {
	maps.DeleteFunc(p.gaps, func(_ int64, since time.Time) bool { return now.Sub(since) > gapKept })
	return slices.Sorted(maps.Keys(p.gaps))
}

// lost says that lines may be gone that were not read, where the log holds those from oldest to newest: too many, or
// dropped before they were read, or the database came from a backup.
func (p *place) lost(oldest, newest int64, asked []int64) bool {
	return newest < p.last || oldest > p.last+1 || len(p.gaps) > maxGaps ||
		len(asked) > 0 && asked[0] < oldest
}

// moveTo begins again at a number.
func (p *place) moveTo(number int64) { p.last, p.gaps = number, map[int64]time.Time{} }

// copied is the place as it is now.
func (p *place) copied() place { return place{p.last, maps.Clone(p.gaps)} }
