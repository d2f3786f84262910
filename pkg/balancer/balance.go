package balancer

import (
	"cmp"
	"slices"
	"strings"
)

// Balance plans who should own which key. It may be called concurrently. 100,000 keys of one group and 1,000 members take
// about 10 ms, with differing weights 30 ms; several times as long where MaxTasks leaves too few places or there are a thousand groups.
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
	load   []int    // by member: keys of all groups decided so far; never of what is held, which changes while keys move
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
	return b
}

// addLoad adds the group's counts to the members' loads, or with sign -1 takes them away.
func (b *balance) addLoad(g *group, sign int) {
	for _, m := range g.eligible {
		b.load[m] += sign * g.count[m]
	}
}

// rounds bounds how often a plan is improved by the plan that would follow it. Two or three are usual where there are any.
const rounds = 64

// solve decides every key's target.
//
// For groups alone, with equal weights or without pins, one round gives what no other could better. Where weights meet
// pins, or MaxTasks ties groups together, a state once reached may allow a better one. That is looked for now, and not at
// the next plan: a plan carried out must leave nothing to do.
func (b *balance) solve() {
	for range rounds {
		again := false
		b.forget()
		for _, g := range b.groups {
			b.solveGroup(g)
			again = again || g.weighted && len(g.classes) > 1
		}
		if b.roster.limited && b.overfull() {
			again = !b.solveLimited()
		}
		if !again || b.stayThere() {
			return
		}
	}
	if b.roster.limited {
		b.fit()
	}
}

// forget takes back what was decided.
func (b *balance) forget() {
	clear(b.load)
	for _, g := range b.groups {
		clear(g.count)
	}
}

// stayThere makes the answer the state to start from. It says whether it was that already.
func (b *balance) stayThere() bool {
	same := true
	for _, g := range b.groups {
		same = g.stayThere() && same
		copy(g.upper, g.places)
	}
	return same
}

func (b *balance) solveGroup(g *group) {
	b.addLoad(g, -1)
	g.solve(b.load)
	b.addLoad(g, 1)
}
