package balancer

import "slices"

// spread is fill that considers zones. Every member gets the level all the same, and the single keys above it go to the
// zones that have fewest.
func spread(slots []slot, n int, zoned bool) {
	if !zoned {
		fill(slots, n)
		return
	}
	if level, rest := fillLevel(slots, n); rest > 0 {
		giveSinglesByZone(slots, level, rest)
	}
}

// zoneShare is what one zone has before single keys are given, and who of it could take one.
type zoneShare struct {
	sum  slot  // lo is what it has, hi what it could have
	open []int // positions of its slots that the level did not fill, in the order in which they get one more
}

// giveSinglesByZone is giveSingles by water-filling over the zones. Of zones that have equally many, that goes first
// whose next member would.
func giveSinglesByZone(slots []slot, level, rest int) {
	zones := zoneShares(slots, level)
	sums := make([]slot, len(zones))
	total := rest
	for i := range zones {
		sums[i] = zones[i].sum
		total += sums[i].lo
	}
	height, rest := fillLevel(sums, total)
	next := func(z int) *slot { return &slots[zones[z].open[sums[z].quota-sums[z].lo]] }
	var more []int
	for z := range sums {
		if sums[z].takesOne(height) {
			more = append(more, z)
		}
	}
	slices.SortFunc(more, func(a, b int) int { return next(a).compare(next(b), level) })
	for _, z := range more[:rest] {
		sums[z].quota++
	}
	for z := range zones {
		for _, i := range zones[z].open[:sums[z].quota-sums[z].lo] {
			slots[i].quota++
		}
	}
}

func zoneShares(slots []slot, level int) []zoneShare {
	at := map[int32]int{}
	var zones []zoneShare
	for i := range slots {
		s := &slots[i]
		z, ok := at[s.zone]
		if !ok {
			z = len(zones)
			at[s.zone] = z
			zones = append(zones, zoneShare{})
		}
		share := &zones[z]
		share.sum.lo += s.quota
		if s.takesOne(level) {
			share.open = append(share.open, i)
		}
	}
	for z := range zones {
		share := &zones[z]
		share.sum.hi = share.sum.lo + len(share.open)
		slices.SortFunc(share.open, func(a, b int) int { return slots[a].compare(&slots[b], level) })
	}
	return zones
}
