package balancer

import (
	"fmt"
	"slices"
	"testing"

	"github.com/shardctl/shardctl/pkg/elect"
)

// players are a cluster: plans are carried out at once.
type players struct {
	t     *testing.T
	in    Input
	moves int // from one member to another
	clock int64
}

func newPlayers(t *testing.T, tasks int) *players {
	t.Helper()
	return &players{t: t, in: Input{Groups: []Group{{Name: "topics", Keys: makeKeys("topics", tasks)}}}}
}

func makeKeys(group string, n int) []Key {
	keys := make([]Key, n)
	for i := range keys {
		keys[i] = Key{Key: elect.NewKey(group, fmt.Sprintf("t%05d", i)), Weight: 1}
	}
	return keys
}

func (c *players) join(name, revision string, caps map[string]int) {
	c.clock++
	c.in.Members = append(
		c.in.Members, Member{ID: name + "-id", Name: name, Revision: revision, Opened: c.clock, Caps: caps},
	)
}

func (c *players) drain(name string) {
	for i := range c.in.Members {
		if c.in.Members[i].Name == name {
			c.in.Members[i].Draining = true
		}
	}
}

func (c *players) leave(name string) {
	for i := range c.in.Members {
		if c.in.Members[i].Name == name {
			c.in.Members = append(c.in.Members[:i:i], c.in.Members[i+1:]...)
			return
		}
	}
}

// settle carries the plan out, and returns the moves between members.
func (c *players) settle() []move {
	c.t.Helper()
	p := Balance(c.in)
	if len(p.Unassigned) > 0 {
		c.t.Fatalf("%d unassigned, first %v", len(p.Unassigned), p.Unassigned[0])
	}
	var moves []move
	for _, m := range movesOf(c.in, p) {
		if m.From != "" {
			moves = append(moves, m)
		}
	}
	c.moves += len(moves)
	for i := range c.in.Groups {
		for j := range c.in.Groups[i].Keys {
			c.in.Groups[i].Keys[j].Owner = p.Groups[i].Owners[j]
		}
	}
	return moves
}

func (c *players) revision(id string) string {
	for _, m := range c.in.Members {
		if m.ID == id {
			return m.Revision
		}
	}
	return ""
}

func (c *players) owned() map[string]int {
	owned := map[string]int{}
	for _, k := range c.in.Groups[0].Keys {
		owned[k.Owner]++
	}
	return owned
}

func TestRollingUpdateMovesEachKeyOnce(t *testing.T) {
	for _, tc := range []struct {
		name                      string
		replicas, tasks, cap, max int
		surge                     int
		change                    func(*Input) // made before the first plan
	}{
		{"surge 1, no cap", 5, 100, 0, 100, 1, nil},
		{"surge 1, cap 30", 5, 100, 30, 100, 1, nil},
		{"surge 1, cap just reached", 5, 100, 20, 100, 1, nil},
		{"surge 2", 6, 120, 0, 120, 2, nil},
		{"surge of all", 5, 100, 0, 100, 5, nil},
		{"uneven", 7, 100, 0, 105, 1, nil},
		{"no surge", 5, 100, 0, 145, 0, nil},
		{"weights", 5, 100, 0, 105, 1, func(in *Input) {
			for i := range in.Groups[0].Keys {
				in.Groups[0].Keys[i].Weight = 1 + i%3
			}
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := newPlayers(t, tc.tasks)
			var caps map[string]int
			if tc.cap > 0 {
				caps = map[string]int{"topics": tc.cap}
			}
			for i := range tc.replicas {
				c.join(fmt.Sprintf("old-%d", i), "r1", caps)
			}
			if tc.change != nil {
				tc.change(&c.in)
			}
			c.settle()
			started, stopped := 0, 0
			check := func(moves []move) {
				t.Helper()
				for _, m := range moves {
					from, to := c.revision(m.From), c.revision(m.To)
					if tc.surge > 0 && to == "r1" || from == "r2" && stopped < tc.replicas {
						t.Fatalf("%s moves from %s to %s", m.Key, m.From, m.To)
					}
				}
			}
			for stopped < tc.replicas {
				for started < tc.replicas && started < stopped+tc.surge {
					c.join(fmt.Sprintf("new-%d", started), "r2", caps)
					started++
					check(c.settle())
				}
				name := fmt.Sprintf("old-%d", stopped)
				c.drain(name)
				check(c.settle())
				c.leave(name)
				stopped++
				check(c.settle())
				if started < stopped {
					c.join(fmt.Sprintf("new-%d", started), "r2", caps)
					started++
					check(c.settle())
				}
			}
			c.settle()
			if c.moves > tc.max {
				t.Errorf("%d moves, want at most %d", c.moves, tc.max)
			}
			for id, n := range c.owned() {
				if low := tc.tasks / tc.replicas; tc.change == nil && (n < low || n > low+1) {
					t.Errorf("%s ends with %d of %d keys", id, n, tc.tasks)
				}
			}
			t.Logf("%d moves", c.moves)
		})
	}
}

func TestOrphansGoToTheNewerMemberUpToItsQuota(t *testing.T) {
	keys := makeKeys("g", 12)
	for i := range keys[:8] {
		keys[i].Owner = "old-1"
	}
	keys[8].Owner, keys[9].Owner = "new", "new"
	in := Input{
		Members: []Member{
			{ID: "old-1", Name: "old-1", Revision: "r1", Opened: 1},
			{ID: "old-2", Name: "old-2", Revision: "r1", Opened: 2},
			{ID: "new", Name: "new", Revision: "r2", Opened: 3},
		},
		Groups: []Group{{Name: "g", Keys: keys}},
	}
	// old-2 owns less, and yet what it got it would soon have to give away.
	if n := owned(in, Balance(in)); !slices.Equal(n, []int{8, 0, 4}) {
		t.Errorf("counts %v", n)
	}
}
