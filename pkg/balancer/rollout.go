package balancer

// rollOut shares n keys out while a rolling update is under way. Every slot keeps what it holds, as far as hi lets it,
// and only what no member holds is given away. The newer members get it up to the quota that all would have now. What
// is left then goes by water-filling over all. Zones count for that last part only. A newer member's zone may have few
// members left for a moment, and what it takes now it should not have to release again.
//
// Why held keys stay: suppose five old members hold 100 keys, and there is one member more than in the end. Even quotas
// would take 16 of the keys for the sixth. When the first old one stops, its other 17 then find capacity for only 4
// that lasts. Moved for the spread of one minute, most keys would move twice.
func rollOut(slots []slot, n int, zoned bool) {
	n = clampTotal(slots, n)
	fill(slots, n)
	pool := n
	for i := range slots {
		pool -= min(slots[i].held, slots[i].hi)
	}
	var newer []slot
	var at []int // where in slots the newer ones are
	fromNewer := pool
	for i := range slots {
		s := &slots[i]
		keep := min(s.held, s.hi)
		if s.newer {
			newer = append(newer, slot{member: s.member, lo: keep, hi: max(keep, s.quota), held: s.held, load: s.load})
			at = append(at, i)
			fromNewer += keep
		}
		s.lo = keep
	}
	fill(newer, fromNewer)
	for i := range newer {
		slots[at[i]].lo = newer[i].quota
	}
	spread(slots, n, zoned)
}
