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

func (c *class) has(member int32) bool {
	_, ok := slices.BinarySearch(c.members, member)
	return ok
}

// zonePin is how a pin to a zone begins.
const zonePin = "zone="

// pinnedTo lists those of the members that a pin names. A pattern that is malformed names none.
func (r *roster) pinnedTo(pin string, eligible []int32) []int32 {
	var named []int32
	if !strings.HasPrefix(pin, zonePin) && !strings.ContainsAny(pin, `*?[\`) {
		for _, m := range r.byName[pin] {
			if _, ok := slices.BinarySearch(eligible, m); ok {
				named = append(named, m)
			}
		}
		return named
	}
	for _, m := range eligible {
		if r.members[m].pinnedBy(pin) {
			named = append(named, m)
		}
	}
	return named
}

// pinnedBy says whether a pin names m.
func (m *Member) pinnedBy(pin string) bool { return PinnedTo(pin, m.Name, m.Zone) }

// PinnedTo says whether a pin, an instance, a pattern as in [path.Match] or zone=ZONE, names an instance in a zone.
func PinnedTo(pin, instance, zone string) bool {
	if want, ok := strings.CutPrefix(pin, zonePin); ok {
		return zone == want
	}
	matches, err := path.Match(pin, instance)
	return err == nil && matches
}

// classes are all of a group, in the order in which they are placed; the last one is for keys without a pin.
type classes struct {
	all []class
	of  []int32 // by key, or nil when no key is pinned
}

// findClasses sorts keys into classes: strict ones before preferences, and those with the fewest members first.
func findClasses(keys []Key, order []int32, r *roster, eligible []int32) classes {
	if !slices.ContainsFunc(order, func(i int32) bool { return keys[i].Pin != "" }) {
		return classes{all: []class{{members: eligible, keys: order}}}
	}
	type name struct {
		pin    string
		strict bool
	}
	var all []class
	found := make(map[name]int)
	rest := class{members: eligible}
	for _, i := range order {
		k := &keys[i]
		if k.Pin == "" {
			rest.keys = append(rest.keys, i)
			continue
		}
		at, ok := found[name{k.Pin, k.Strict}]
		if !ok {
			at = len(all)
			found[name{k.Pin, k.Strict}] = at
			all = append(all, class{pin: k.Pin, strict: k.Strict, members: r.pinnedTo(k.Pin, eligible)})
		}
		all[at].keys = append(all[at].keys, i)
	}
	slices.SortFunc(all, func(a, b class) int {
		return cmp.Or(
			-cmpBool(a.strict, b.strict),
			cmp.Compare(len(a.members), len(b.members)),
			strings.Compare(a.pin, b.pin),
		)
	})
	c := classes{all: append(all, rest), of: make([]int32, len(keys))}
	for at := range c.all {
		for _, i := range c.all[at].keys {
			c.of[i] = int32(at)
		}
	}
	return c
}

// class of a key.
func (c *classes) class(key int32) *class { return &c.all[c.classIndex(key)] }

func (c *classes) classIndex(key int32) int32 {
	if c.of == nil {
		return 0
	}
	return c.of[key]
}

// pinned are the classes of keys with a pin, and unpinned the one without.
func (c *classes) pinned() []class { return c.all[:len(c.all)-1] }
func (c *classes) unpinned() class { return c.all[len(c.all)-1] }
