package reconcile

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/shardctl/shardctl/pkg/balancer"
	"github.com/shardctl/shardctl/pkg/elect"
)

func topics(n int) []balancer.Group {
	keys := make([]balancer.Key, n)
	for i := range keys {
		keys[i] = balancer.Key{Key: elect.NewKey("topics", fmt.Sprintf("t%05d", i)), Weight: 1}
	}
	return []balancer.Group{{Name: "topics", Keys: keys}}
}

func TestSimulate(t *testing.T) {
	cap20 := balancer.Member{Caps: map[string]int{"topics": 20}}
	for _, tc := range []struct {
		name           string
		replicas, lose int
		like           balancer.Member
		leftOver       int
		moves          int
		free, headroom int // after; ignored without a cap
	}{
		{"none lost", 10, 0, cap20, 0, 0, 100, 80},
		{"full", 10, 5, cap20, 0, 50, 0, -20},
		{"too many", 10, 6, cap20, 20, 40, -20, -40},
		{"all", 10, 12, cap20, 100, 0, -100, -100},
		{"no replicas", 0, 3, cap20, 100, 0, -100, -100},
		{"below zero", -1, 0, cap20, 100, 0, -100, -100},
		{"no cap", 10, 9, balancer.Member{}, 0, 90, 0, 0},
		{"maxTasks", 10, 6, balancer.Member{MaxTasks: 20}, 20, 40, -20, -40},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := Simulate(topics(100), Replicas(tc.replicas, tc.like), tc.lose)
			g := f.Groups[0]
			if f.LeftOver != tc.leftOver || g.After.LeftOver != tc.leftOver || len(g.After.Unassigned) != tc.leftOver {
				t.Errorf("left over %d, %d, %d", f.LeftOver, g.After.LeftOver, len(g.After.Unassigned))
			}
			if f.Moves != tc.moves || g.Moves != tc.moves {
				t.Errorf("moves %d, %d", f.Moves, g.Moves)
			}
			if want := max(tc.replicas-tc.lose, 0); len(g.After.Instances) != want {
				t.Errorf("%d instances after, want %d", len(g.After.Instances), want)
			}
			if g.After.Capacity != nil && (*g.After.Free != tc.free || *g.After.Headroom != tc.headroom) {
				t.Errorf("free %d, headroom %d", *g.After.Free, *g.After.Headroom)
			}
		})
	}
}

func TestSimulateForgetsOwnersAndLosesTheFullest(t *testing.T) {
	groups := topics(10)
	groups[0].Keys[0].Owner = "replica-3"
	groups[0].Keys[9].Pin = "replica-2"
	groups[0].Keys[8].Pin = "replica-2"
	groups[0].Keys[7].Pin = "replica-2"
	groups[0].Keys[6].Pin = "replica-2"
	groups[0].Keys[5].Pin = "replica-2"
	f := Simulate(groups, Replicas(3, balancer.Member{}), 1)
	if !slices.Equal(f.Lost, []string{"replica-2"}) {
		t.Errorf("lost %v, of which replica-2 had the most", f.Lost)
	}
	if groups[0].Keys[0].Owner != "replica-3" {
		t.Error("Simulate changed its input")
	}
}

func TestForecastIsReadyForJSON(t *testing.T) {
	text, err := json.Marshal(Simulate(topics(2), Replicas(1, balancer.Member{Caps: map[string]int{"topics": 1}}), 0))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`"replicas":1`, `"lost":[]`, `"leftOver":1`, `"cap":1`, `"capacity":1`, `"free":-1`, `"headroom":-2`,
		`{"instance":"replica-1","tasks":1,"keys":["topics/t00000"]}`, `{"key":"topics/t00001","reason":"NoCapacity"}`,
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("no %s in %s", want, text)
		}
	}
}
