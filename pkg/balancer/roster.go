package balancer

import (
	"cmp"
	"slices"
	"strings"
)

// none stands for "no member" where members are indexes.
const none int32 = -1

// roster is the members in order of name and ID, with indexes into it for everything that keys name them by.
type roster struct {
	members []Member
	byID    map[string]int32
	byName  map[string][]int32
	zone    []int32 // by member: an index in order of the zones' names; -1: it says none
	rank    []int32 // by member: of its revision, the newest highest
	limited bool    // some member has MaxTasks
}

func newRoster(members []Member) *roster {
	byName := func(a, b Member) int {
		return cmp.Or(strings.Compare(a.Name, b.Name), strings.Compare(a.ID, b.ID))
	}
	if !slices.IsSortedFunc(members, byName) {
		members = slices.SortedFunc(slices.Values(members), byName)
	}
	r := &roster{
		members: members,
		byID:    make(map[string]int32, len(members)),
		byName:  make(map[string][]int32, len(members)),
		zone:    make([]int32, len(members)),
		rank:    make([]int32, len(members)),
	}
	for i := range members {
		m := &members[i]
		r.byID[m.ID] = int32(i)
		r.limited = r.limited || m.MaxTasks > 0
		if !m.Draining {
			r.byName[m.Name] = append(r.byName[m.Name], int32(i))
		}
	}
	r.numberZones()
	r.rankRevisions()
	return r
}

func (r *roster) numberZones() {
	var names []string
	for i := range r.members {
		names = append(names, r.members[i].Zone)
	}
	slices.Sort(names)
	names = slices.Compact(names)
	for i := range r.members {
		r.zone[i] = none
		if z := r.members[i].Zone; z != "" {
			at, _ := slices.BinarySearch(names, z)
			r.zone[i] = int32(at) //nolint:gosec // G115: at most as many zones as members
		}
	}
}

// rankRevisions orders the revisions by when the earliest member of each was opened: the one whose earliest came last
// is the newest. Draining members count, else an old pod that was restarted would look new once its siblings have
// gone.
func (r *roster) rankRevisions() {
	type revision struct {
		name   string
		opened int64
	}
	earliest := make(map[string]int64)
	for i := range r.members {
		m := &r.members[i]
		if at, ok := earliest[m.Revision]; !ok || m.Opened < at {
			earliest[m.Revision] = m.Opened
		}
	}
	revisions := make([]revision, 0, len(earliest))
	for name, at := range earliest {
		revisions = append(revisions, revision{name, at})
	}
	slices.SortFunc(revisions, func(a, b revision) int {
		return cmp.Or(cmp.Compare(a.opened, b.opened), strings.Compare(a.name, b.name))
	})
	rank := make(map[string]int32, len(revisions))
	for i, v := range revisions {
		rank[v.name] = int32(i)
	}
	for i := range r.members {
		r.rank[i] = rank[r.members[i].Revision]
	}
}

// find returns the index of the member with this ID, or none.
func (r *roster) find(id string) int32 {
	if id == "" {
		return none
	}
	if i, ok := r.byID[id]; ok {
		return i
	}
	return none
}

// alike says whether all zones have equally many of these members: only then do even zones make even members.
func (r *roster) alike(members []int32) bool {
	sizes := map[int32]int{}
	for _, m := range members {
		sizes[r.zone[m]]++
	}
	for _, n := range sizes {
		if n*len(sizes) != len(members) {
			return false
		}
	}
	return true
}

// byZone is members in order of zones.
func (r *roster) byZone(members []int32) []int32 {
	sorted := slices.Clone(members)
	slices.SortStableFunc(sorted, func(a, b int32) int { return cmp.Compare(r.zone[a], r.zone[b]) })
	return sorted
}

// cmpBool orders false before true.
func cmpBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	default:
		return -1
	}
}
