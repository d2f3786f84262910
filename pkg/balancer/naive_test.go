package balancer

import (
	"fmt"
	"slices"
	"strings"

	"pgregory.net/rapid"

	"github.com/shardctl/shardctl/pkg/elect"
	_ "github.com/shardctl/shardctl/test/seeds" // the same cases for everybody
)

// The naive balancer: it deals keys out one at a time, each time looking at all members, and knows nothing of levels,
// quotas or classes. It is for equal weights, without zones, pins and MaxTasks.

// naiveQuotas is the multiset of counts that water-filling has to reach: each key goes to a member that has fewest
// and free capacity.
func naiveQuotas(caps []int, n int) []int {
	got := make([]int, len(caps))
	for range n {
		best := -1
		for i := range got {
			if got[i] < caps[i] && (best < 0 || got[i] < got[best]) {
				best = i
			}
		}
		if best < 0 {
			break
		}
		got[best]++
	}
	return got
}

// naiveMoves is the fewest keys that have to leave their live owner. It takes them one at a time from a member that may
// not keep what it has. Every member may keep the level, and as many as there are single keys above it one more.
func naiveMoves(caps, held []int, n int) int {
	quotas := naiveQuotas(caps, n)
	level, singles := len(held)*n+1, 0
	for i, q := range quotas { // the level is the least count of those that are not full
		if q < caps[i] {
			level = min(level, q)
		}
	}
	for _, q := range quotas {
		if q > level {
			singles++
		}
	}
	moves := 0
	for i := range held {
		may := min(level, caps[i])
		for have := held[i]; have > may; have-- {
			if have == may+1 && singles > 0 && may < caps[i] {
				singles-- // it keeps this one as one of the singles
				continue
			}
			moves++
		}
	}
	return moves
}

// maxFlow is the most keys that can be placed: Ford and Fulkerson, one unit at a time, on source → key → (group,
// member) → member → sink.
func maxFlow(in Input) int {
	type edge struct{ to, left, back int }
	var graph [][]edge
	node := func() int {
		graph = append(graph, nil)
		return len(graph) - 1
	}
	connect := func(a, b, capacity int) {
		graph[a] = append(graph[a], edge{b, capacity, len(graph[b])})
		graph[b] = append(graph[b], edge{a, 0, len(graph[a]) - 1})
	}
	source, sink := node(), node()
	const plenty = 1 << 30
	out := make([]int, len(in.Members))
	for i, m := range in.Members {
		out[i] = node()
		limit := plenty
		if m.MaxTasks > 0 {
			limit = m.MaxTasks
		}
		connect(out[i], sink, limit)
	}
	for gi := range in.Groups {
		g := &in.Groups[gi]
		within := make([]int, len(in.Members))
		for i, m := range in.Members {
			within[i] = node()
			limit := plenty
			if c, ok := m.Caps[g.Name]; ok {
				limit = c
			}
			connect(within[i], out[i], limit)
		}
		for ki := range g.Keys {
			if g.Keys[ki].Paused {
				continue
			}
			k := node()
			connect(source, k, 1)
			for i := range in.Members {
				if naiveMayOwn(&in, g, &g.Keys[ki], i) {
					connect(k, within[i], 1)
				}
			}
		}
	}
	flow := 0
	for {
		seen := make([]bool, len(graph))
		var walk func(at int) bool
		walk = func(at int) bool {
			if at == sink {
				return true
			}
			seen[at] = true
			for i := range graph[at] {
				e := &graph[at][i]
				if e.left > 0 && !seen[e.to] && walk(e.to) {
					e.left--
					graph[e.to][e.back].left++
					return true
				}
			}
			return false
		}
		if !walk(source) {
			return flow
		}
		flow++
	}
}

// naiveMayOwn says whether the member may own the key at all, caps apart.
func naiveMayOwn(in *Input, g *Group, k *Key, member int) bool {
	m := &in.Members[member]
	if m.Draining {
		return false
	}
	for name, value := range g.Selector {
		if m.Labels[name] != value {
			return false
		}
	}
	if !k.Strict || k.Pin == "" {
		return true
	}
	switch k.Pin { // those that drawInput makes
	case "zone=z0", "zone=z1", "zone=z2":
		return "zone="+m.Zone == k.Pin
	case "m[0-2]":
		return m.Name == "m0" || m.Name == "m1" || m.Name == "m2"
	case "m[1-4]":
		return m.Name == "m1" || m.Name == "m2" || m.Name == "m3" || m.Name == "m4"
	default:
		return m.Name == k.Pin
	}
}

// drawing says what may be in a drawn input.
type drawing struct {
	groups                                  int
	caps, maxTasks, zones, pins, strictOnly bool
	weights, settled, selectors, revisions  bool
	draining, paused                        bool
}

func drawInput(t *rapid.T, d drawing) Input {
	var in Input
	members := rapid.IntRange(1, 9).Draw(t, "members")
	for i := range members {
		in.Members = append(in.Members, drawMember(t, d, i))
	}
	groups := 1
	if d.groups > 1 {
		groups = rapid.IntRange(1, d.groups).Draw(t, "groups")
	}
	for i := range groups {
		in.Groups = append(in.Groups, drawGroup(t, d, i, members))
	}
	return in
}

func drawMember(t *rapid.T, d drawing, i int) Member {
	m := Member{ID: fmt.Sprintf("id%d", i), Name: fmt.Sprintf("m%d", i), Opened: int64(i)}
	if d.caps {
		m.Caps = map[string]int{}
		for g := range max(d.groups, 1) {
			if rapid.Bool().Draw(t, "capped") {
				m.Caps[fmt.Sprintf("g%d", g)] = rapid.IntRange(0, 12).Draw(t, "cap")
			}
		}
	}
	if d.maxTasks && rapid.Bool().Draw(t, "limited") {
		m.MaxTasks = rapid.IntRange(1, 12).Draw(t, "maxTasks")
	}
	if d.zones {
		m.Zone = rapid.SampledFrom([]string{"z0", "z1", "z2"}).Draw(t, "zone")
	}
	if d.selectors {
		m.Labels = map[string]string{"pool": rapid.SampledFrom([]string{"a", "b"}).Draw(t, "pool")}
	}
	if d.revisions {
		m.Revision = rapid.SampledFrom([]string{"r1", "r2"}).Draw(t, "revision")
	}
	m.Draining = d.draining && rapid.IntRange(0, 4).Draw(t, "draining") == 0
	return m
}

func drawGroup(t *rapid.T, d drawing, i, members int) Group {
	g := Group{Name: fmt.Sprintf("g%d", i)}
	if d.selectors && rapid.Bool().Draw(t, "selects") {
		g.Selector = map[string]string{"pool": rapid.SampledFrom([]string{"a", "b"}).Draw(t, "pool")}
	}
	for j := range rapid.IntRange(0, 40).Draw(t, "keys") {
		k := Key{Key: elect.NewKey(g.Name, fmt.Sprintf("t%02d", j)), Weight: 1}
		// members+1 is one that is gone, members+2 none
		if o := rapid.IntRange(0, members+1).Draw(t, "owner"); o <= members {
			k.Owner = fmt.Sprintf("id%d", o)
		}
		if rapid.IntRange(0, 9).Draw(t, "reserve") == 0 {
			k.Reserved = fmt.Sprintf("id%d", rapid.IntRange(0, members).Draw(t, "reserved"))
		}
		if d.weights {
			k.Weight = rapid.IntRange(1, 20).Draw(t, "weight")
		}
		if d.pins && rapid.Bool().Draw(t, "pinned") {
			k.Pin = rapid.SampledFrom(
				[]string{"m0", "m1", "m3", "zone=z0", "zone=z1", "m[0-2]", "m[1-4]"},
			).Draw(t, "pin")
			k.Strict = d.strictOnly || rapid.Bool().Draw(t, "strict")
		}
		k.Settled = d.settled && rapid.IntRange(0, 3).Draw(t, "settled") == 0
		k.Paused = d.paused && rapid.IntRange(0, 6).Draw(t, "paused") == 0
		g.Keys = append(g.Keys, k)
	}
	return g
}

// move is one key that a plan takes to another owner.
type move struct {
	Key    elect.Key
	From   string // the member that owns it, live or draining; empty: none does
	To     string
	Reason elect.Reason // empty when From is
}

// movesOf lists, in order of keys, every key whose new owner is not its present one, first owners included.
func movesOf(in Input, p Plan) []move {
	var moves []move
	live := map[string]Reasons{}
	for _, m := range in.Members {
		live[m.ID] = ReasonsOf(in.Members, m.ID)
	}
	for gi, g := range in.Groups {
		for ki := range g.Keys {
			k, to := &g.Keys[ki], p.Groups[gi].Owners[ki]
			why, owned := live[k.Owner]
			switch {
			case to == "" || owned && to == k.Owner:
			case owned:
				moves = append(moves, move{Key: k.Key, From: k.Owner, To: to, Reason: why.Of(k, to)})
			default:
				moves = append(moves, move{Key: k.Key, To: to})
			}
		}
	}
	slices.SortStableFunc(moves, func(a, b move) int { return strings.Compare(string(a.Key), string(b.Key)) })
	return moves
}
