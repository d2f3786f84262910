package balancer

import (
	"cmp"
	"path"
	"slices"
	"strings"
)

// class is a group's keys that the same members may own: those with one and the same pin, or all without any.
type class struct {
	pin     string
	strict  bool
	members []int32 // ascending
	keys    []int32 // in order of keys
}

// zonePin is how a pin to a zone begins.
const zonePin = "zone="

// findClasses sorts the keys into classes, those with the fewest members first and strict ones before wishes.
func (g *group) findClasses() {
	keys := g.in.Keys
	pinned := slices.ContainsFunc(g.order, func(i int32) bool { return keys[i].Pin != "" })
	if !pinned {
		g.classes = []class{{members: g.eligible, keys: g.order}}
		return
	}
	type name struct {
		pin    string
		strict bool
	}
	found := make(map[name]int)
	rest := class{members: g.eligible}
	for _, i := range g.order {
		k := &keys[i]
		if k.Pin == "" {
			rest.keys = append(rest.keys, i)
			continue
		}
		at, ok := found[name{k.Pin, k.Strict}]
		if !ok {
			at = len(g.classes)
			found[name{k.Pin, k.Strict}] = at
			g.classes = append(g.classes, class{pin: k.Pin, strict: k.Strict, members: g.pinnedTo(k.Pin)})
		}
		g.classes[at].keys = append(g.classes[at].keys, i)
	}
	slices.SortFunc(g.classes, func(a, b class) int {
		return cmp.Or(-cmpBool(a.strict, b.strict), cmp.Compare(len(a.members), len(b.members)), strings.Compare(a.pin, b.pin))
	})
	g.classes = append(g.classes, rest)
	g.classOf = make([]int32, len(keys))
	for at := range g.classes {
		for _, i := range g.classes[at].keys {
			g.classOf[i] = int32(at)
		}
	}
}

// pinnedTo lists the eligible members that a pin names. A pattern that is none names nobody.
func (g *group) pinnedTo(pin string) []int32 {
	zone, isZone := strings.CutPrefix(pin, zonePin)
	var named []int32
	if !isZone && !strings.ContainsAny(pin, `*?[\`) {
		for _, m := range g.roster.byName[pin] {
			if _, ok := slices.BinarySearch(g.eligible, m); ok {
				named = append(named, m)
			}
		}
		return named
	}
	for _, m := range g.eligible {
		member := &g.roster.members[m]
		matches := isZone && member.Zone == zone
		if !isZone {
			matches, _ = path.Match(pin, member.Name) // its error is a bad pattern, which matches nobody
		}
		if matches {
			named = append(named, m)
		}
	}
	return named
}

// class of a key.
func (g *group) class(key int32) *class {
	if g.classOf == nil {
		return &g.classes[0]
	}
	return &g.classes[g.classOf[key]]
}

func (c *class) has(member int32) bool {
	_, ok := slices.BinarySearch(c.members, member)
	return ok
}

// fitStrict finds places for strictly pinned keys that found none by moving others of their kind aside: along a shortest
// chain of keys, each of which goes to another member of its own. (Hopcroft and Karp's augmenting paths, one at a time.)
func (g *group) fitStrict(left []int32) {
	if len(left) == 0 {
		return
	}
	at := make([][]int32, len(g.roster.members)) // by member: strictly pinned keys that may be moved aside
	for c := range g.classes {
		if !g.classes[c].strict {
			continue
		}
		for _, key := range g.classes[c].keys {
			if m := g.target[key]; m != none && !g.stays(key, m) {
				at[m] = append(at[m], key)
			}
		}
	}
	for _, key := range left {
		g.fitOne(key, at)
	}
}

// stays says whether a key is settled where it is.
func (g *group) stays(key, member int32) bool {
	return g.in.Keys[key].Settled && g.home[key] == member
}

func (g *group) fitOne(key int32, at [][]int32) {
	by := make([]int32, len(at)) // by member: the key that would come to it
	for m := range by {
		by[m] = none
	}
	queue := []int32{key}
	for len(queue) > 0 {
		k := queue[0]
		queue = queue[1:]
		for _, m := range g.class(k).members {
			if by[m] != none || m == g.target[k] {
				continue
			}
			by[m] = k
			if g.count[m] < g.upper[m] {
				g.shift(m, by, at)
				return
			}
			queue = append(queue, at[m]...)
		}
	}
}

// shift moves each key of the chain that ends at m one member on.
func (g *group) shift(m int32, by []int32, at [][]int32) {
	for m != none {
		key := by[m]
		from := g.target[key]
		if from != none {
			g.count[from]--
			g.must[from]--
			g.mass[from] -= g.in.Keys[key].weight()
			at[from] = slices.DeleteFunc(at[from], func(k int32) bool { return k == key })
		}
		g.assign(key, m)
		g.must[m]++
		at[m] = append(at[m], key)
		m = from
	}
}
