package balancer

import (
	"cmp"
	"slices"
	"strings"
)

// Balance plans who should own which key. It may be called concurrently, and takes 10 to 60 ms for 100,000 keys and 1,000
// members.
func Balance(in Input) Plan {
	b := newBalance(in)
	b.solve()
	return b.plan()
}

// balance is one run of Balance. Members and groups are indexes, and what is known of them lies in slices.
type balance struct {
	in     Input
	roster *roster
	groups []*group // in order of names
	place  []int    // by index in in.Groups: index in groups
	load   []int    // by member: keys of all groups, as far as decided; else as held
}

func newBalance(in Input) *balance {
	b := &balance{in: in, roster: newRoster(in.Members), load: make([]int, len(in.Members)), place: make([]int, len(in.Groups))}
	byName := make([]int, len(in.Groups))
	for i := range byName {
		byName[i] = i
	}
	slices.SortFunc(byName, func(i, j int) int {
		return cmp.Or(strings.Compare(in.Groups[i].Name, in.Groups[j].Name), cmp.Compare(i, j))
	})
	work := newScratch(len(in.Members))
	for at, i := range byName {
		b.place[i] = at
		b.groups = append(b.groups, newGroup(&in.Groups[i], b.roster, work, in.Even))
	}
	for _, g := range b.groups {
		g.countHomes()
		b.addLoad(g, 1)
	}
	return b
}

// addLoad adds the group's counts to the members' loads, or with sign -1 takes them away.
func (b *balance) addLoad(g *group, sign int) {
	for _, m := range g.eligible {
		b.load[m] += sign * g.count[m]
	}
}

// solve decides every key's target.
func (b *balance) solve() {
	for _, g := range b.groups {
		b.solveGroup(g)
	}
	if b.roster.limited {
		b.solveLimited()
	}
}

func (b *balance) solveGroup(g *group) {
	b.addLoad(g, -1)
	g.solve(b.load)
	b.addLoad(g, 1)
}
