package balancer

import (
	"cmp"
	"slices"
)

// slotWork is memory that groups lend each other, one after the other.
type slotWork struct {
	free  []int // by member: keys it may still get; outside stands for members that do not matter now
	slots []slot
	rest  []int32
}

const outside = -1

func newSlotWork(members int) *slotWork {
	w := &slotWork{free: make([]int, members)}
	for i := range w.free {
		w.free[i] = outside
	}
	return w
}

// placeByCount gives the class's keys that have no target yet to members, by counts of keys. load is what members
// have in other groups.
func (w *slotWork) placeByCount(p *placement, c *class, load []int) {
	n := w.makeSlots(p, c, load)
	if p.frozen {
		rollOut(w.slots, n, p.zoned)
	} else {
		spread(w.slots, n, p.zoned)
	}
	w.fillQuotas(p, c)
}

// makeSlots makes a slot for each of the class's members, and returns how many keys these will have in all.
func (w *slotWork) makeSlots(p *placement, c *class, load []int) int {
	n := 0
	for _, m := range c.members {
		w.free[m] = 0 // counts here what is held
		n += p.count[m]
	}
	for _, key := range c.keys {
		if p.target[key] != none {
			continue
		}
		n++
		if h := p.home[key]; h != none && w.free[h] != outside {
			w.free[h]++
		}
	}
	w.slots = w.slots[:0]
	for _, m := range c.members {
		w.slots = append(w.slots, slot{
			member: m, lo: p.count[m], hi: p.limit[m], held: p.count[m] + w.free[m],
			load: load[m] + p.count[m], newer: p.isNewer(m), zone: p.roster.zone[m],
		})
	}
	return n
}

// fillQuotas gives keys to members up to the quotas: those at home first, in order of keys. The others go to members
// that are below their quota, in order of members.
func (w *slotWork) fillQuotas(p *placement, c *class) {
	for i := range w.slots {
		s := &w.slots[i]
		w.free[s.member] = s.quota - p.count[s.member]
	}
	w.rest = w.rest[:0]
	for _, key := range c.keys {
		if p.target[key] != none {
			continue
		}
		if h := p.home[key]; h != none && w.free[h] > 0 {
			w.free[h]--
			p.assign(key, h)
			continue
		}
		w.rest = append(w.rest, key)
	}
	rest := w.rest
	for _, m := range c.members {
		for ; w.free[m] > 0 && len(rest) > 0; w.free[m]-- {
			p.assign(rest[0], m)
			rest = rest[1:]
		}
		w.free[m] = outside
	}
}

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
