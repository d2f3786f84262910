package quorum

import "slices"

// Page is one server's answer to a list: ids in order, and whether more would have followed.
type Page struct {
	IDs []string
	Cut bool
}

// Merge is the union of what a majority of servers listed, in order and without doubles. Each document is then read
// from a majority, and only what is read so is filtered, counted and cut: a server that is behind still lists what the
// newer copies of others exclude.
//
// Where a server's page was cut, nothing is known beyond its last id. whole is false then, and the next page begins
// after the last id that is returned; there is at least one.
func Merge(pages []Page, reverse bool) (ids []string, whole bool) {
	order := func(a, b string) int {
		switch {
		case a == b:
			return 0
		case (a < b) != reverse:
			return -1
		}
		return 1
	}
	whole = true
	var bound string
	for _, p := range pages {
		ids = append(ids, p.IDs...)
		if !p.Cut || len(p.IDs) == 0 {
			continue
		}
		if last := p.IDs[len(p.IDs)-1]; whole || order(last, bound) < 0 {
			whole, bound = false, last
		}
	}
	slices.SortFunc(ids, order)
	ids = slices.Compact(ids)
	if !whole {
		ids = slices.DeleteFunc(ids, func(id string) bool { return order(id, bound) > 0 })
	}
	return ids, whole
}
