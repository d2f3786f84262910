package balancer

import (
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/shardctl/shardctl/pkg/elect"
	_ "github.com/shardctl/shardctl/test/seeds" // the same cases for everybody
)

// everything draws all that an input can hold.
var everything = drawing{
	groups: 3, caps: true, maxTasks: true, zones: true, pins: true, weights: true, settled: true,
	selectors: true, revisions: true, draining: true, paused: true,
}

// counts are keys by group and member of a plan.
func counts(t *rapid.T, in Input, p Plan) [][]int {
	at := map[string]int{}
	for i, m := range in.Members {
		at[m.ID] = i
	}
	all := make([][]int, len(in.Groups))
	for gi, g := range in.Groups {
		all[gi] = make([]int, len(in.Members))
		for ki := range g.Keys {
			id := p.Groups[gi].Owners[ki]
			if id == "" {
				continue
			}
			m, ok := at[id]
			if !ok {
				t.Fatalf("%s is given to %q, who is no member", g.Keys[ki].Key, id)
			}
			if !naiveMayOwn(&in, &g, &g.Keys[ki], m) {
				t.Fatalf("%s is given to %s, who may not own it", g.Keys[ki].Key, id)
			}
			if g.Keys[ki].Paused {
				t.Fatalf("%s is paused and given to %s", g.Keys[ki].Key, id)
			}
			all[gi][m]++
		}
	}
	return all
}

func drawingWith(base drawing, change func(*drawing)) drawing {
	change(&base)
	return base
}

func TestLimitsAreNeverPassed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := drawInput(t, everything)
		in.Even = rapid.Bool().Draw(t, "even")
		total := make([]int, len(in.Members))
		for gi, byMember := range counts(t, in, Balance(in)) {
			for i, n := range byMember {
				if limit, ok := in.Members[i].Caps[in.Groups[gi].Name]; ok && n > limit {
					t.Fatalf("%s owns %d of %s, its cap is %d", in.Members[i].ID, n, in.Groups[gi].Name, limit)
				}
				total[i] += n
			}
		}
		for i, n := range total {
			if limit := in.Members[i].MaxTasks; limit > 0 && n > limit {
				t.Fatalf("%s owns %d, its maxTasks is %d", in.Members[i].ID, n, limit)
			}
		}
	})
}

func TestEverythingIsPlacedThatCanBe(t *testing.T) {
	for name, d := range map[string]drawing{
		"caps, selectors, pins": drawingWith(
			everything, func(d *drawing) { d.groups, d.maxTasks, d.settled = 1, false, false },
		),
		"maxTasks":          drawingWith(everything, func(d *drawing) { d.pins, d.settled = false, false }),
		"settled":           drawingWith(everything, func(d *drawing) { d.maxTasks, d.pins = false, false }),
		"pins and maxTasks": drawingWith(everything, func(d *drawing) { d.settled = false }),
	} {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				in := drawInput(t, d)
				p := Balance(in)
				placed := 0
				for _, g := range p.Groups {
					placed += g.Stats.Assigned
				}
				if want := maxFlow(in); placed != want {
					t.Fatalf("%d keys placed, %d could be", placed, want)
				}
			})
		})
	}
}

func TestSpreadAndMovesAreThoseOfTheNaiveBalancer(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := drawInput(t, drawing{caps: true, draining: true, paused: true})
		p := Balance(in)
		got := counts(t, in, p)[0]
		caps, held, live := make([]int, 0), make([]int, 0), make([]int, 0)
		n := p.Groups[0].Stats.Tasks
		for i, m := range in.Members {
			if m.Draining {
				continue
			}
			limit, ok := m.Caps["g0"]
			if !ok {
				limit = n
			}
			caps = append(caps, limit)
			held = append(held, homes(in, 0)[m.ID])
			live = append(live, got[i])
		}
		want := naiveQuotas(caps, n)
		if !slices.Equal(slices.Sorted(slices.Values(live)), slices.Sorted(slices.Values(want))) {
			t.Fatalf("counts %v, the naive balancer's %v", live, want)
		}
		for i, x := range live { // who has free capacity is at most one below any
			for _, y := range live {
				if x < caps[i] && y > x+1 {
					t.Fatalf("counts %v under caps %v", live, caps)
				}
			}
		}
		moves := 0
		for ki, k := range in.Groups[0].Keys {
			if h := home(in, 0, k); h != "" && p.Groups[0].Owners[ki] != h {
				moves++
			}
		}
		if want := naiveMoves(caps, held, n); moves != want {
			t.Fatalf("%d keys leave where they are, %d would be enough; held %v, caps %v", moves, want, held, caps)
		}
	})
}

// home is the live member that a key is with, or is being handed to.
func home(in Input, _ int, k Key) string {
	if k.Paused {
		return ""
	}
	at := ""
	for _, m := range in.Members {
		if !m.Draining && m.ID == k.Reserved {
			return m.ID
		}
		if !m.Draining && m.ID == k.Owner {
			at = m.ID
		}
	}
	return at
}

func homes(in Input, group int) map[string]int {
	n := map[string]int{}
	for _, k := range in.Groups[group].Keys {
		n[home(in, group, k)]++
	}
	return n
}

// apply carries a plan out.
func apply(in Input, p Plan) Input {
	in.Groups = slices.Clone(in.Groups)
	for gi := range in.Groups {
		keys := slices.Clone(in.Groups[gi].Keys)
		for ki := range keys {
			keys[ki].Owner, keys[ki].Reserved = p.Groups[gi].Owners[ki], ""
		}
		in.Groups[gi].Keys = keys
	}
	return in
}

func TestABalancedStateStays(t *testing.T) {
	for name, d := range map[string]drawing{
		"counts": drawingWith(
			everything, func(d *drawing) { d.weights, d.maxTasks, d.settled = false, false, false },
		),
		"settled":  drawingWith(everything, func(d *drawing) { d.weights, d.maxTasks, d.pins = false, false, false }),
		"weights":  drawingWith(everything, func(d *drawing) { d.maxTasks, d.settled = false, false }),
		"maxTasks": drawingWith(everything, func(d *drawing) { d.weights, d.settled, d.pins = false, false, false }),
		"all":      drawingWith(everything, func(d *drawing) { d.settled = false }),
	} {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				in := drawInput(t, d)
				in.Even = rapid.Bool().Draw(t, "even")
				after := apply(in, Balance(in))
				if moves := movesOf(after, Balance(after)); len(moves) > 0 {
					t.Fatalf("the plan was carried out, and the next one moves %v", moves)
				}
			})
		})
	}
}

func TestOrderOfInputDoesNotMatter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := drawInput(t, everything)
		want := Balance(in)
		if again := Balance(in); !reflect.DeepEqual(again, want) {
			t.Fatal("the same input gave two plans")
		}
		mixed := in
		mixed.Members = rapid.Permutation(in.Members).Draw(t, "members")
		mixed.Groups = nil
		for _, g := range rapid.Permutation(in.Groups).Draw(t, "groups") {
			g.Keys = rapid.Permutation(g.Keys).Draw(t, "keys")
			mixed.Groups = append(mixed.Groups, g)
		}
		got := Balance(mixed)
		if !reflect.DeepEqual(got.Owners(mixed), want.Owners(in)) {
			t.Fatal("another order gave other owners")
		}
		if !reflect.DeepEqual(movesOf(mixed, got), movesOf(in, want)) ||
			!reflect.DeepEqual(got.Unassigned, want.Unassigned) {
			t.Fatal("another order gave other moves")
		}
	})
}

func TestWeightsKeepTheBound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := drawInput(t, drawing{weights: true, draining: true})
		p := Balance(in)
		load := map[string]int{}
		total, heaviest, live := 0, 0, 0
		for ki, k := range in.Groups[0].Keys {
			load[p.Groups[0].Owners[ki]] += k.Weight
			total += k.Weight
			heaviest = max(heaviest, k.Weight)
		}
		for _, m := range in.Members {
			if !m.Draining {
				live++
			}
		}
		if live == 0 {
			return
		}
		mean := (total + live - 1) / live
		for id, l := range load {
			if l > mean+max(mean/20, heaviest) {
				t.Fatalf("%s has %d, the mean is %d and the heaviest key %d", id, l, mean, heaviest)
			}
		}
	})
}

func TestSettledKeysStay(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := drawInput(t, drawing{
			settled: true, zones: true, weights: rapid.Bool().Draw(t, "weights"), revisions: true, draining: true,
		})
		p := Balance(in)
		for ki, k := range in.Groups[0].Keys {
			if h := home(in, 0, k); k.Settled && h != "" && p.Groups[0].Owners[ki] != h {
				t.Fatalf("%s is settled with %s and goes to %s", k.Key, h, p.Groups[0].Owners[ki])
			}
		}
	})
}

// Members are even, and of the plans in which they are that one holds in which zones are as even as can be.
func TestZonesShareWhatIsAboveTheLevel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := drawInput(t, drawing{zones: true, draining: true})
		got := counts(t, in, Balance(in))[0]
		sums, sizes, above := map[string]int{}, map[string]int{}, map[string]int{}
		level := -1
		for i, m := range in.Members {
			if !m.Draining && (level < 0 || got[i] < level) {
				level = got[i]
			}
		}
		for i, m := range in.Members {
			if m.Draining {
				continue
			}
			if got[i] > level+1 {
				t.Fatalf("%s has %d, and another %d", m.ID, got[i], level)
			}
			sums[m.Zone] += got[i]
			sizes[m.Zone]++
			above[m.Zone] += got[i] - level
		}
		for a := range sums {
			for b := range sums {
				if above[a] > 0 && above[b] < sizes[b] && sums[a] > sums[b]+1 {
					t.Fatalf("a key of zone %s (%d) would be better off in zone %s (%d)", a, sums[a], b, sums[b])
				}
			}
		}
	})
}

// Replicas plan again all the time while keys are being handed over. They must come to what is left of the first
// plan, or keys would move more often than they need to.
func TestAPlanHalfCarriedOutIsStillThePlan(t *testing.T) {
	for name, d := range map[string]drawing{
		"counts": {groups: 3, caps: true, draining: true, paused: true, selectors: true},
		"zones":  {groups: 3, caps: true, draining: true, zones: true},
		"pins":   {groups: 2, caps: true, draining: true, pins: true},
		"update": {groups: 2, caps: true, draining: true, revisions: true},
	} {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				in := drawInput(t, d)
				in.Even = rapid.Bool().Draw(t, "even")
				p := Balance(in)
				half := apply(in, p)
				var rest []move
				for _, m := range movesOf(in, p) {
					if k := findKey(half, m.Key); rapid.Bool().Draw(t, "still to do") {
						k.Owner = m.From
						if from := findKey(in, m.Key); rapid.Bool().Draw(t, "reserved") {
							k.Reserved = m.To
						} else {
							k.Owner, k.Reserved = from.Owner, from.Reserved
						}
						rest = append(rest, m)
					}
				}
				if got := movesOf(half, Balance(half)); !slices.Equal(got, rest) {
					t.Fatalf("left to do: %v, and the new plan is %v", rest, got)
				}
			})
		})
	}
}

func findKey(in Input, key elect.Key) *Key {
	for gi := range in.Groups {
		for ki := range in.Groups[gi].Keys {
			if k := &in.Groups[gi].Keys[ki]; k.Key == key {
				return k
			}
		}
	}
	return nil
}
