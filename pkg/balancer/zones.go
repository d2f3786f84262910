package balancer

import (
	"cmp"
	"slices"
)

// spread is fill over zones first and then inside each. It may reorder slots.
func spread(slots []slot, n int, zoned bool) {
	if !zoned {
		fill(slots, n)
		return
	}
	slices.SortFunc(slots, func(a, b slot) int {
		return cmp.Or(cmp.Compare(a.zone, b.zone), cmp.Compare(a.member, b.member))
	})
	zones := zoneSlots(slots)
	fillZones(zones, n)
	for i := range zones {
		fill(zones[i].slots, zones[i].sum.quota)
	}
}

// zoneSlot is one zone's share: the sum of its members' slots.
type zoneSlot struct {
	sum   slot
	slots []slot // of its members, a part of the whole
}

func zoneSlots(slots []slot) []zoneSlot {
	var zones []zoneSlot
	for from := 0; from < len(slots); {
		to := from
		sum := slot{member: slots[from].zone}
		for ; to < len(slots) && slots[to].zone == slots[from].zone; to++ {
			s := &slots[to]
			sum.lo += s.lo
			sum.hi += s.hi
			sum.held += s.held
			sum.load += s.load
			sum.newer = sum.newer || s.newer
		}
		zones = append(zones, zoneSlot{sum: sum, slots: slots[from:to]})
		from = to
	}
	return zones
}

// fillZones gives each zone its quota. Which zones get one more than the level is decided by where that one saves a move: not
// the zone's sum tells, but whether its members could keep one more.
func fillZones(zones []zoneSlot, n int) {
	sums := make([]slot, len(zones))
	for i := range zones {
		sums[i] = zones[i].sum
	}
	n = clampTotal(sums, n)
	level, rest := waterLevel(sums, n)
	for i := range sums {
		s := &sums[i]
		s.quota = min(max(level, s.lo), s.hi)
		if rest == 0 || s.lo > level || s.hi <= level {
			continue
		}
		if kept(zones[i].slots, level+1) > kept(zones[i].slots, level) {
			s.held = max(s.held, level+1)
		} else {
			s.held = min(s.held, level)
		}
	}
	if rest > 0 {
		giveSingles(sums, level, rest)
	}
	for i := range zones {
		zones[i].sum.quota = sums[i].quota
	}
}

// kept is how many keys would stay if these slots got n keys in all.
func kept(slots []slot, n int) int {
	fill(slots, n)
	sum := 0
	for i := range slots {
		sum += min(slots[i].quota, slots[i].held)
	}
	return sum
}
