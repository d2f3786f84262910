package balancer

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/shardctl/shardctl/internal/record"
	"github.com/shardctl/shardctl/pkg/elect"
	_ "github.com/shardctl/shardctl/test/seeds" // the same cases for everybody
)

// input is n members without caps, and one group of keys all of which are owned evenly.
func input(members, keys int) Input {
	in := Input{Groups: []Group{{Name: "g", Keys: makeKeys("g", keys)}}}
	for i := range members {
		in.Members = append(in.Members, Member{ID: fmt.Sprintf("id-%03d", i), Name: fmt.Sprintf("m-%03d", i)})
	}
	return apply(in, Balance(in))
}

func owned(in Input, p Plan) []int {
	n := map[string]int{}
	for _, g := range p.Groups {
		for _, id := range g.Owners {
			n[id]++
		}
	}
	var all []int
	for _, m := range in.Members {
		all = append(all, n[m.ID])
	}
	return all
}

func TestMembershipMovesTheMinimum(t *testing.T) {
	for _, tc := range []struct {
		name          string
		members, keys int
		change        func(*Input)
		moves         int
	}{
		{
			"5 to 6, 100 keys", 5, 100,
			func(in *Input) { in.Members = append(in.Members, Member{ID: "new", Name: "new"}) }, 16,
		},
		{
			"4 to 5, 100 keys", 4, 100,
			func(in *Input) { in.Members = append(in.Members, Member{ID: "new", Name: "new"}) }, 20,
		},
		{
			"9 to 10, 1000 keys", 9, 1000,
			func(in *Input) { in.Members = append(in.Members, Member{ID: "new", Name: "new"}) }, 100,
		},
		{"one of 5 dies", 5, 100, func(in *Input) { in.Members = in.Members[1:] }, 20},
		{"one of 5 drains", 5, 100, func(in *Input) { in.Members[2].Draining = true }, 20},
		{"nothing", 5, 103, func(*Input) {}, 0},
		{"one more key", 5, 100, func(in *Input) { in.Groups[0].Keys = append(in.Groups[0].Keys, Key{Key: "g/u"}) }, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			in := input(tc.members, tc.keys)
			tc.change(&in)
			p := Balance(in)
			if moves := movesOf(in, p); len(moves) != tc.moves {
				t.Errorf("%d moves, want %d", len(moves), tc.moves)
			}
			if spread := p.Groups[0].Stats.Imbalance; spread > 1 {
				t.Errorf("imbalance %d", spread)
			}
		})
	}
}

func TestOneKeyMoreThanMembersLeavesNoMemberIdle(t *testing.T) {
	in := input(100, 101)
	n := owned(in, Balance(in))
	slices.Sort(n)
	if n[0] != 1 || n[98] != 1 || n[99] != 2 {
		t.Errorf("counts %v", n)
	}
}

func TestSingleKeysOfManyGroupsSpreadOverMembers(t *testing.T) {
	var in Input
	for i := range 5 {
		in.Members = append(in.Members, Member{ID: fmt.Sprint(i), Name: fmt.Sprint(i)})
	}
	for i := range 20 {
		in.Groups = append(in.Groups, Group{Name: fmt.Sprintf("g%02d", i), Keys: makeKeys(fmt.Sprintf("g%02d", i), 1)})
	}
	if n := owned(in, Balance(in)); !slices.Equal(n, []int{4, 4, 4, 4, 4}) {
		t.Errorf("counts %v: the first member takes every group's only key", n)
	}
}

func TestUnassignedSaysWhy(t *testing.T) {
	gpu := map[string]string{"pool": "gpu"}
	one := func(k Key) []Key { k.Key = "g/1"; return []Key{k} }
	for _, tc := range []struct {
		name  string
		m     Member
		g     Group
		want  string
		owner bool
	}{
		{"cap 0", Member{Caps: map[string]int{"g": 0}}, Group{Keys: one(Key{})}, NoCapacity, false},
		{"cap below 0", Member{Caps: map[string]int{"g": -1}}, Group{Keys: one(Key{})}, NoCapacity, false},
		{"selector", Member{}, Group{Selector: gpu, Keys: one(Key{})}, NoInstance, false},
		{"selector met", Member{Labels: gpu}, Group{Selector: gpu, Keys: one(Key{})}, "", true},
		{
			"selector, strict pin",
			Member{Name: "a"},
			Group{Selector: gpu, Keys: one(Key{Pin: "a", Strict: true})},
			NoInstance, false,
		},
		{"draining", Member{Draining: true}, Group{Keys: one(Key{})}, NoInstance, false},
		{
			"strict pin elsewhere",
			Member{Name: "a"},
			Group{Keys: one(Key{Pin: "b", Strict: true})},
			PinUnavailable,
			false,
		},
		{
			"strict pin to a full one",
			Member{Name: "a", Caps: map[string]int{"g": 0}},
			Group{Keys: one(Key{Pin: "a", Strict: true})},
			PinUnavailable, false,
		},
		{"strict zone", Member{Zone: "x"}, Group{Keys: one(Key{Pin: "zone=y", Strict: true})}, PinUnavailable, false},
		{"malformed pattern", Member{Name: "a"}, Group{Keys: one(Key{Pin: "[", Strict: true})}, PinUnavailable, false},
		{"malformed pattern as a preference", Member{Name: "a"}, Group{Keys: one(Key{Pin: "["})}, "", true},
		{"pattern", Member{Name: "a-17"}, Group{Keys: one(Key{Pin: "a-*", Strict: true})}, "", true},
		{"paused", Member{}, Group{Keys: one(Key{Paused: true, Owner: "id"})}, "", false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tc.m.ID, tc.g.Name = "id", "g"
			in := Input{Members: []Member{tc.m}, Groups: []Group{tc.g}}
			p := Balance(in)
			if got := p.Groups[0].Owners[0] == "id"; got != tc.owner {
				t.Errorf("owned: %v", got)
			}
			switch {
			case tc.want == "" && len(p.Unassigned) > 0:
				t.Errorf("unassigned %v", p.Unassigned)
			case tc.want != "" && !slices.Equal(p.Unassigned, []Unassigned{{Key: "g/1", Reason: tc.want}}):
				t.Errorf("unassigned %v, want %s", p.Unassigned, tc.want)
			}
		})
	}
}

func TestReasonsOfMoves(t *testing.T) {
	members := func() []Member {
		return []Member{
			{ID: "a", Name: "a", Revision: "r1", Opened: 1}, {ID: "b", Name: "b", Revision: "r2", Opened: 2},
		}
	}
	for _, tc := range []struct {
		name   string
		change func(*Input)
		want   elect.Reason
	}{
		{"balance", func(in *Input) { in.Members[1].Revision = "r1" }, record.ReasonBalance},
		{"drain", func(in *Input) { in.Members[0].Draining = true }, record.ReasonDrain},
		{"pin", func(in *Input) { in.Groups[0].Keys[0].Pin = "b" }, record.ReasonPin},
		{"upgrade", func(in *Input) { in.Even = true }, record.ReasonUpgrade},
		{"orphan", func(in *Input) { in.Groups[0].Keys[1].Owner = "gone" }, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			in := Input{
				Members: members(),
				Groups:  []Group{{Name: "g", Keys: []Key{{Key: "g/1", Owner: "a"}, {Key: "g/2", Owner: "a"}}}},
			}
			tc.change(&in)
			moves := movesOf(in, Balance(in))
			if len(moves) == 0 || moves[0].Reason != tc.want || moves[0].To != "b" {
				t.Errorf("moves %v, want the reason %q", moves, tc.want)
			}
		})
	}
}

func TestNewerRevisionIsTheOneWhoseEarliestMemberOpenedLast(t *testing.T) {
	// An old pod that was restarted late does not make its revision the newer one.
	in := Input{
		Members: []Member{
			{ID: "old-1", Name: "old-1", Revision: "r1", Opened: 1},
			{ID: "new-1", Name: "new-1", Revision: "r2", Opened: 5},
			{ID: "old-2", Name: "old-2", Revision: "r1", Opened: 9},
		},
		Groups: []Group{{Name: "g", Keys: []Key{{Key: "g/1", Owner: "gone"}}}},
	}
	if p := Balance(in); p.Groups[0].Owners[0] != "new-1" {
		t.Errorf("the orphan goes to %s", p.Groups[0].Owners[0])
	}
}

func TestStats(t *testing.T) {
	number := func(n *int) string {
		if n == nil {
			return "none"
		}
		return fmt.Sprint(*n)
	}
	capped := func(caps ...int) []Member {
		var ms []Member
		for i, c := range caps {
			m := Member{ID: fmt.Sprint(i), Name: fmt.Sprint(i)}
			if c >= 0 {
				m.Caps = map[string]int{"g": c}
			}
			ms = append(ms, m)
		}
		return ms
	}
	for _, tc := range []struct {
		members            []Member
		capacity, headroom string
		imbalance, left    int
	}{
		{capped(20, 20, 20, 20, 20), "100", "30", 0, 0},
		{capped(20, 30), "50", "-30", 10, 0},
		{capped(10, 20), "30", "-40", 10, 20},
		{capped(-1, 20), "none", "-30", 10, 0},
		{capped(-1, -1), "none", "none", 0, 0},
		{nil, "0", "-50", 0, 50},
	} {
		in := Input{Members: tc.members, Groups: []Group{{Name: "g", Keys: makeKeys("g", 50)}}}
		s := Balance(in).Groups[0].Stats
		if number(s.Capacity) != tc.capacity || number(s.Headroom) != tc.headroom || s.Imbalance != tc.imbalance ||
			s.LeftOver() != tc.left {
			t.Errorf("%d members: capacity %s, headroom %s, imbalance %d, left over %d; want %+v",
				len(tc.members), number(s.Capacity), number(s.Headroom), s.Imbalance, s.LeftOver(), tc)
		}
	}
}

func TestWeightsAtScale(t *testing.T) {
	in := benchInput(1, 5000, 50)
	for i := range in.Members {
		in.Members[i].Caps = nil
	}
	total := 0
	for i := range in.Groups[0].Keys {
		in.Groups[0].Keys[i].Weight = 1 + i*7919%100
		total += in.Groups[0].Keys[i].Weight
	}
	in = apply(in, Balance(in))
	in.Members = append(in.Members, Member{ID: "new", Name: "new"})
	p := Balance(in)
	load := map[string]int{}
	for i, id := range p.Groups[0].Owners {
		load[id] += in.Groups[0].Keys[i].Weight
	}
	for id, l := range load {
		if l*len(in.Members)*100 > total*106 {
			t.Errorf("%s has %d of %d", id, l, total)
		}
	}
	// The new member needs 1/51 of the load: 98 keys of the mean weight. Twice as many moves would be careless.
	if moves := movesOf(in, p); load["new"] == 0 || len(moves) > 196 {
		t.Errorf("%d moves, the new member has %d", len(moves), load["new"])
	}
}

func TestInputStaysAsItIs(t *testing.T) {
	in := benchInput(2, 60, 7)
	slices.Reverse(in.Members)
	slices.Reverse(in.Groups[0].Keys)
	want := fmt.Sprint(in)
	Balance(in)
	if got := fmt.Sprint(in); got != want {
		t.Error("Balance changed its input")
	}
}

func FuzzBalance(f *testing.F) {
	f.Fuzz(rapid.MakeFuzz(func(t *rapid.T) {
		in := drawInput(t, everything)
		p := Balance(in)
		counts(t, in, p)
		for gi, g := range p.Groups {
			assigned := 0
			for _, id := range g.Owners {
				if id != "" {
					assigned++
				}
			}
			if assigned != g.Stats.Assigned || g.Stats.Tasks > len(in.Groups[gi].Keys) {
				t.Fatalf("%d keys have owners, the figures say %+v", assigned, g.Stats)
			}
		}
	}))
}

func TestStrictPinsThatOverlapMoveAside(t *testing.T) {
	// The first pattern's key goes to m0 by itself; only then does the second find nothing.
	capped := func(n int) map[string]int { return map[string]int{"g": n} }
	in := Input{
		Members: []Member{
			{ID: "m0", Name: "m0", Caps: capped(1)},
			{ID: "m1", Name: "m1", Caps: capped(1)},
			{ID: "m2", Name: "m2", Caps: capped(0)},
		},
		Groups: []Group{{Name: "g", Keys: []Key{
			{Key: "g/1", Pin: "m[01]", Strict: true},
			{Key: "g/2", Pin: "m[02]", Strict: true},
		}}},
	}
	if got := Balance(in).Groups[0].Owners; !slices.Equal(got, []string{"m1", "m0"}) {
		t.Errorf("owners %q", got)
	}
}

// Another group's key goes elsewhere so that a key that has nowhere else to go finds its place.
func TestStrictlyPinnedKeyIsMovedAsideForOneOfAnotherGroup(t *testing.T) {
	in := Input{
		Members: []Member{
			{ID: "1", Name: "a"}, {ID: "2", Name: "b"}, {ID: "3", Name: "c"}, {ID: "4", Name: "d", MaxTasks: 1},
		},
		Groups: []Group{{Name: "g", Keys: makeKeys("g", 4)}, {Name: "h", Keys: makeKeys("h", 1)}},
	}
	for i, pin := range []string{"a", "b", "[a-c]", "[b-d]"} {
		in.Groups[0].Keys[i].Pin, in.Groups[0].Keys[i].Strict = pin, true
	}
	in.Groups[1].Keys[0].Pin, in.Groups[1].Keys[0].Strict = "d", true
	p := Balance(in)
	if len(p.Unassigned) > 0 || p.Groups[1].Owners[0] != "4" {
		t.Errorf("owners %v and %v, unassigned %v", p.Groups[0].Owners, p.Groups[1].Owners, p.Unassigned)
	}
	if moves := movesOf(apply(in, p), Balance(apply(in, p))); len(moves) > 0 {
		t.Errorf("the plan was carried out, and the next one moves %v", moves)
	}
}
