package balancer

import (
	"fmt"
	"testing"
)

func BenchmarkBalance(b *testing.B) {
	for _, bc := range []struct {
		name          string
		groups, total int
		change        func(*Input)
	}{
		{"cold", 1, 100_000, nil},
		{"idle", 1, 100_000, func(*Input) {}},
		{"one joins", 1, 100_000, func(in *Input) {
			in.Members = append(in.Members, Member{ID: "new", Name: "new", Caps: map[string]int{"g0": 200}})
		}},
		{"one dies", 1, 100_000, func(in *Input) { in.Members = in.Members[1:] }},
		{"ten groups", 10, 100_000, func(in *Input) { in.Members = in.Members[1:] }},
		{"ten groups, maxTasks", 10, 100_000, func(in *Input) {
			in.Members = in.Members[1:]
			for i := range in.Members {
				in.Members[i].MaxTasks = 100
			}
		}},
		{"1000 groups", 1000, 100_000, func(in *Input) { in.Members = in.Members[1:] }},
		{"zones", 1, 100_000, func(in *Input) {
			for i := range in.Members {
				in.Members[i].Zone = fmt.Sprintf("z%d", i%3)
			}
		}},
		{"weights", 1, 100_000, func(in *Input) {
			for i := range in.Groups[0].Keys {
				in.Groups[0].Keys[i].Weight = 1 + i*7919%10
			}
			in.Members = in.Members[1:]
		}},
		{"weights cold", 1, 100_000, func(in *Input) {
			for i := range in.Groups[0].Keys {
				in.Groups[0].Keys[i].Weight = 1 + i*7919%10
				in.Groups[0].Keys[i].Owner = ""
			}
		}},
	} {
		b.Run(bc.name, func(b *testing.B) {
			in := benchInput(bc.groups, bc.total, 1000)
			if bc.change != nil {
				p := Balance(in)
				for i := range in.Groups {
					for j := range in.Groups[i].Keys {
						in.Groups[i].Keys[j].Owner = p.Groups[i].Owners[j]
					}
				}
				bc.change(&in)
			}
			b.ReportAllocs()
			for b.Loop() {
				Balance(in)
			}
		})
	}
}

func benchInput(groups, total, members int) Input {
	var in Input
	caps := map[string]int{}
	for g := range groups {
		name := fmt.Sprintf("g%d", g)
		caps[name] = 200
		in.Groups = append(in.Groups, Group{Name: name, Keys: makeKeys(name, total/groups)})
	}
	for i := range members {
		in.Members = append(in.Members, Member{
			ID: fmt.Sprintf("0d6a2c1e-7f0a-4d3b-9c1d-%012d", i), Name: fmt.Sprintf("replica-%04d", i), Caps: caps,
		})
	}
	return in
}

// fullOfWeights is a group that weighs far more on the first of so many members than on the others. The caps leave no
// free capacity, so only swaps can make it even.
func fullOfWeights(members, keys int, weight func(i int) int) Input {
	in := Input{Groups: []Group{{Name: "g", Keys: makeKeys("g", keys)}}}
	for i := range members {
		in.Members = append(in.Members, capped(i, fmt.Sprintf("m-%03d", i), keys/members))
	}
	for i := range in.Groups[0].Keys {
		k := &in.Groups[0].Keys[i]
		k.Owner, k.Weight = in.Members[i*members/keys].ID, weight(i)
	}
	return in
}

func capped(i int, name string, limit int) Member {
	return Member{ID: fmt.Sprintf("id-%03d", i), Name: name, Caps: map[string]int{"g": limit}}
}

// worstWeights are weights by index, all of them heavier on the members that come first.
func worstWeights(keys int) map[string]func(i int) int {
	return map[string]func(i int) int{
		"all differ":      func(i int) int { return keys - i },
		"all differ much": func(i int) int { return (keys - i) * (keys - i) },
		"of two values":   func(i int) int { return 1 + max(0, 1-i*2/keys) },
		"nearly equal":    func(i int) int { return 1_000_000 + keys - i },
		"one is huge":     func(i int) int { return 1 + (keys-i)/2 + max(0, 1-i)*keys*keys },
		"fine steps":      func(i int) int { return 1_000_000 + (keys-i)*2 - i%2*keys },
	}
}

// hopelessPins is a group of strictly pinned keys of so many patterns, for only half of which there is capacity.
func hopelessPins(members, patterns int) Input {
	const keys = 10_000
	in := Input{Groups: []Group{{Name: "g", Keys: makeKeys("g", keys)}}}
	for i := range members {
		in.Members = append(in.Members, capped(i, fmt.Sprintf("m-%03d", i), keys/2/members))
	}
	for i := range in.Groups[0].Keys {
		k := &in.Groups[0].Keys[i]
		k.Strict = true
		k.Pin = fmt.Sprintf("m-[0-9%05d]*", i%patterns) // all the same members, each pattern under a name of its own
	}
	return in
}

// chainsOfPins is a group of strictly pinned keys of which each pattern's find only members that the one before has
// filled. Every key that is left makes all others move one member on.
func chainsOfPins(members, keys int) Input {
	in := Input{Groups: []Group{{Name: "g", Keys: makeKeys("g", keys)}}}
	each := keys / members
	for i := range members {
		in.Members = append(in.Members, capped(i, string(rune('0'+i)), each))
	}
	for i := range in.Groups[0].Keys {
		k, at := &in.Groups[0].Keys[i], i/each
		k.Strict = true
		k.Pin = fmt.Sprintf("[%c%c]", rune('0'+at), rune('0'+min(at+1, members-1)))
		if at == members-1 {
			k.Pin = fmt.Sprintf("[%c%c]", rune('0'), rune('0'+at))
		}
	}
	return in
}

// newcomer is so many members that are full by their MaxTasks, and one that has joined them with plenty of capacity. It
// may own the last group only. So each key without an owner needs a chain: keys of the last group move to the newcomer.
func newcomer(members, groups, each, left int) Input {
	old := map[string]string{"pool": "old"}
	var in Input
	for i := range members {
		in.Members = append(in.Members, Member{
			ID: fmt.Sprintf("id-%03d", i), Name: fmt.Sprintf("m-%03d", i), MaxTasks: each, Labels: old,
		})
	}
	in.Members = append(in.Members, Member{ID: "new", Name: "new", MaxTasks: members * each})
	total := members*each + left
	for g := range groups {
		name := fmt.Sprintf("g-%03d", g)
		group := Group{Name: name, Selector: old, Keys: makeKeys(name, total/groups)}
		if g == groups-1 {
			group.Selector = nil
		}
		for i := range group.Keys {
			group.Keys[i].Owner = in.Members[(i+g)%members].ID
		}
		in.Groups = append(in.Groups, group)
	}
	return in
}

// TestChainsExamineFewCandidates: for each key, all members for each group at each member would be 2,700,000,000
// candidates. What is too much would go round the full members 300 times.
func TestChainsExamineFewCandidates(t *testing.T) {
	in := newcomer(300, 101, 100, 300)
	c := newLayout(in)
	solveAll(c)
	if limit := 32_000_000; c.examined > limit {
		t.Errorf("%d candidates examined, want at most %d", c.examined, limit)
	}
	for _, p := range c.groups {
		for _, key := range p.order {
			if p.target[key] == none {
				t.Fatalf("%s is left over", p.in.Keys[key].Key)
			}
		}
	}
	t.Logf("%d candidates", c.examined)
}

// TestSwapsExamineFewCandidates: all pairs of two members' keys would be 25,000,000 candidates for a single swap.
func TestSwapsExamineFewCandidates(t *testing.T) {
	const keys = 10_000
	for name, weight := range worstWeights(keys) {
		for _, members := range []int{2, 10} {
			t.Run(fmt.Sprintf("%s, %d members", name, members), func(t *testing.T) {
				in := fullOfWeights(members, keys, weight)
				g := newGroup(&in.Groups[0], newRoster(in.Members), false)
				p := newPlacement(g)
				p.reset()
				rest := g.unpinned()
				pack := packing{bins: make([]bin, members), items: itemsOf(p, &rest)}
				for i := range pack.bins {
					pack.bins[i].free = p.limit[i]
				}
				pack.sendHome(func(key int32) (int, bool) { return int(p.home[key]), true })
				share(&pack, false)
				if limit := 100 * keys; pack.examined > limit {
					t.Errorf("%d candidates examined, want at most %d", pack.examined, limit)
				}
				for i, b := range pack.bins {
					// A bin with the huge key is above even with the lightest ones next to it.
					if b.free != 0 || b.load > pack.limit && name != "one is huge" {
						t.Errorf("bin %d: load %d above %d, %d free", i, b.load, pack.limit, b.free)
					}
				}
				t.Logf("%d candidates", pack.examined)
			})
		}
	}
}

// TestHopelessPinsAreSearchedOnce: a search from every hopeless key would examine each key that is placed again.
func TestHopelessPinsAreSearchedOnce(t *testing.T) {
	const keys = 10_000
	for _, patterns := range []int{1, 100, 10_000} {
		t.Run(fmt.Sprint(patterns), func(t *testing.T) {
			in := hopelessPins(50, patterns)
			c := newLayout(in)
			p := c.groups[0]
			solveAll(c)
			s := newStrictSearch(p)
			var left []int32
			for _, key := range p.order {
				if p.target[key] == none {
					left = append(left, key)
				}
			}
			s.fit(left)
			// Each pattern once with its members, and each key once.
			if limit := keys + patterns*(1+len(in.Members)); s.examined > limit {
				t.Errorf("%d candidates examined for %d hopeless keys, want at most %d", s.examined, len(left), limit)
			}
			if len(left) != keys/2 {
				t.Errorf("%d keys are left, want %d", len(left), keys/2)
			}
		})
	}
}

func BenchmarkWorstWeights(b *testing.B) {
	for name, weight := range worstWeights(10_000) {
		for _, members := range []int{2, 10, 100} {
			in := fullOfWeights(members, 10_000, weight)
			b.Run(fmt.Sprintf("%s, %d members", name, members), func(b *testing.B) {
				for b.Loop() {
					Balance(in)
				}
			})
		}
	}
}

func BenchmarkWorstChains(b *testing.B) {
	in := newcomer(300, 101, 100, 300)
	for b.Loop() {
		Balance(in)
	}
}

func BenchmarkWorstPins(b *testing.B) {
	for name, in := range map[string]Input{
		"hopeless, one pattern":     hopelessPins(100, 1),
		"hopeless, 10,000 patterns": hopelessPins(10, 10_000),
		"hopeless, 2 members":       hopelessPins(2, 1),
		"hopeless, 1,000 patterns":  hopelessPins(100, 1000),
		"chains of 10, 10 members":  chainsOfPins(10, 10_000),
		"chains of 60, 60 members":  chainsOfPins(60, 10_000),
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				Balance(in)
			}
		})
	}
}
