package balancer

import (
	"cmp"
	"slices"
)

// slot is what one member, or one zone, may get of the keys that are being shared out. All are counts of keys.
type slot struct {
	member int32 // index of the member, or of the zone
	lo, hi int   // it gets at least lo (it has them already) and at most hi; lo <= hi
	held   int   // what it could keep without a move, lo included; may be above hi
	load   int   // in the groups decided before: of several equals the one with the least load goes first
	newer  bool  // it is of the newer of two revisions: of equals it goes first
	zone   int32

	quota int // the answer
}

// fill shares n keys out by water-filling: quota is lo, level or hi, depending on which is the middle one. What then is
// left goes as single keys to those who hold more than the level. It places as many of the n as lo and hi let it.
//
// The level is the same whatever is held, so a state that was shared out once is shared out the same again.
func fill(slots []slot, n int) {
	if level, rest := fillLevel(slots, n); rest > 0 {
		giveSingles(slots, level, rest)
	}
}

// fillLevel gives every slot its part of the level, and returns what is left then: fewer keys than there are open
// slots.
func fillLevel(slots []slot, n int) (level, rest int) {
	level, rest = waterLevel(slots, clampTotal(slots, n))
	for i := range slots {
		s := &slots[i]
		s.quota = min(max(level, s.lo), s.hi)
	}
	return level, rest
}

// takesOne says whether a slot could take one key above the level.
func (s *slot) takesOne(level int) bool { return s.lo <= level && level < s.hi }

// clampTotal brings n between the sums of lo and hi.
func clampTotal(slots []slot, n int) int {
	lo, hi := 0, 0
	for i := range slots {
		lo += slots[i].lo
		hi += slots[i].hi
	}
	return min(max(n, lo), hi)
}

// waterLevel is the highest level at which no more than n keys are given. It also returns the keys left then: fewer
// than there are slots that could take one more.
func waterLevel(slots []slot, n int) (level, rest int) {
	top := 0
	for i := range slots {
		top = max(top, slots[i].hi)
	}
	given := func(level int) int {
		sum := 0
		for i := range slots {
			sum += min(max(level, slots[i].lo), slots[i].hi)
		}
		return sum
	}
	low, high := 0, top+1 // given(low) <= n; at high every member is full or it is too much
	for high-low > 1 {
		if mid := low + (high-low)/2; given(mid) <= n {
			low = mid
		} else {
			high = mid
		}
	}
	return low, n - given(low)
}

// giveSingles gives one key more to rest of the slots that the level did not fill.
func giveSingles(slots []slot, level, rest int) {
	open := make([]int, 0, len(slots))
	for i := range slots {
		if slots[i].takesOne(level) {
			open = append(open, i)
		}
	}
	slices.SortFunc(open, func(a, b int) int { return slots[a].compare(&slots[b], level) })
	for _, i := range open[:min(rest, len(open))] {
		slots[i].quota++
	}
}

// compare orders slots by who gets one key above the level first. A member that holds more than the level saves a move.
// How many more must not count, nor how many fewer. Else the quotas would change while keys are being handed over, and
// keys would move that need not.
func (s *slot) compare(t *slot, level int) int {
	return cmp.Or(
		-cmpBool(s.held > level, t.held > level),
		-cmpBool(s.newer, t.newer),
		cmp.Compare(s.load, t.load),
		cmp.Compare(s.member, t.member),
	)
}
