//go:build linux

package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"time"

	"github.com/shardctl/shardctl/bench/internal/lab"
	"github.com/shardctl/shardctl/pkg/balancer"
	"github.com/shardctl/shardctl/pkg/elect"
	"github.com/shardctl/shardctl/test/e2e/history"
)

const (
	planKeys    = 100_000
	planMembers = 1_000
	planGroup   = "bench"
	planTarget  = 100 * time.Millisecond
)

// measureBalance measures one plan on one core, in the cases that happen, and whether the order of its input matters.
func measureBalance(_ context.Context, b *lab.Lab) error {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	cold := planInput(false)
	balanced := adopt(cold)
	dies := adopt(cold)
	dies.Members = dies.Members[1:]
	joins := adopt(cold)
	joins.Members = append(joins.Members, planMember(planMembers))
	weights := adopt(planInput(true))
	weights.Members = weights.Members[1:]
	var worst time.Duration
	for _, c := range []struct {
		name string
		in   balancer.Input
	}{{"nothing owned yet", cold}, {"nothing changed", balanced}, {"one dies", dies}, {
		"one joins",
		joins,
	}, {"weights, one dies", weights}} {
		var took []time.Duration
		for range b.Times(15, 5) {
			runtime.GC()
			begin := time.Now()
			balancer.Balance(c.in)
			took = append(took, time.Since(begin))
		}
		p50 := history.Percentile(took, 50)
		worst = max(worst, p50)
		b.Note("  Balance, "+c.name, "p50 %s, max %s", lab.MS(p50), lab.MS(history.Percentile(took, 100)))
	}
	b.Figure("Balance, 100,000 keys, 1,000 members", worst < planTarget, "< 100 ms, one core",
		"p50 of the slowest case %s", lab.MS(worst))
	same := samePlan(dies) && samePlan(weights)
	b.Figure("Balance, deterministic", same, "the same plan for any order of the input", "%v", same)
	return nil
}

func planMember(i int) balancer.Member {
	return balancer.Member{
		ID: fmt.Sprintf("0d6a2c1e-7f0a-4d3b-9c1d-%012d", i), Name: fmt.Sprintf("replica-%04d", i),
		Caps: map[string]int{planGroup: 200},
	}
}

func planInput(weights bool) balancer.Input {
	var in balancer.Input
	for i := range planMembers {
		in.Members = append(in.Members, planMember(i))
	}
	g := balancer.Group{Name: planGroup}
	for i := range planKeys {
		k := balancer.Key{Key: elect.Key(fmt.Sprintf("%s/task-%06d", planGroup, i))}
		if weights {
			k.Weight = 1 + i*7919%10
		}
		g.Keys = append(g.Keys, k)
	}
	in.Groups = []balancer.Group{g}
	return in
}

// adopt is the input after its plan has been carried out.
func adopt(in balancer.Input) balancer.Input {
	owners := balancer.Balance(in).Owners(in)
	keys := make([]balancer.Key, len(in.Groups[0].Keys))
	for i, k := range in.Groups[0].Keys {
		k.Owner = owners[k.Key]
		keys[i] = k
	}
	return balancer.Input{
		Members: append([]balancer.Member(nil), in.Members...),
		Groups:  []balancer.Group{{Name: planGroup, Keys: keys}},
	}
}

// samePlan says whether shuffled members and keys give each key the same owner.
func samePlan(in balancer.Input) bool {
	want := balancer.Balance(in).Owners(in)
	shuffled := balancer.Input{
		Members: append([]balancer.Member(nil), in.Members...),
		Groups:  []balancer.Group{{Name: planGroup, Keys: append([]balancer.Key(nil), in.Groups[0].Keys...)}},
	}
	rand.Shuffle(len(shuffled.Members), func(i, j int) { //nolint:gosec // an order, not a secret
		shuffled.Members[i], shuffled.Members[j] = shuffled.Members[j], shuffled.Members[i]
	})
	keys := shuffled.Groups[0].Keys
	rand.Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] }) //nolint:gosec // likewise
	for key, owner := range balancer.Balance(shuffled).Owners(shuffled) {
		if want[key] != owner {
			return false
		}
	}
	return true
}
