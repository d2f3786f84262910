package balancer

import "github.com/shardctl/shardctl/pkg/elect"

// Plan says who should own what.
type Plan struct {
	// Groups stand in the order of Input.Groups.
	Groups []GroupPlan
	// Unassigned lists, in order of keys, those that no member may own or has free capacity for. Paused keys are not
	// among them.
	Unassigned []Unassigned
}

// GroupPlan is the plan for one group.
type GroupPlan struct {
	Name string
	// Owners are member IDs in the order of the group's Keys; empty: none.
	Owners []string
	Stats  Stats
}

// Unassigned is a key without an owner, and why. Its present owner, if any, has to give it up.
type Unassigned struct {
	Key    elect.Key
	Reason string // NoCapacity, NoInstance or PinUnavailable
}

// Why a key is unassigned.
const (
	NoCapacity     = "NoCapacity"     // all that may own it are full
	NoInstance     = "NoInstance"     // no member lives that may own it
	PinUnavailable = "PinUnavailable" // strictly pinned to what does not live, may not own it or is full
)

// Stats are figures of a group under the plan.
type Stats struct {
	Tasks    int // keys that are not paused
	Assigned int // of these, those with an owner
	Members  int // live members that may own the group's keys
	// Capacity is the sum of those members' limits; nil: some have none.
	Capacity *int
	// Headroom is the capacity left once the member with the largest limit is lost. Below 0, so many keys would be
	// without an owner; nil: no limit.
	Headroom *int
	// Imbalance is the most keys a member owns less the fewest.
	Imbalance int
}

// Owners gathers the owners of all keys, those without one left out. It is for callers that look keys up; walking
// Groups is faster.
func (p Plan) Owners(in Input) map[elect.Key]string {
	n := 0
	for _, g := range in.Groups {
		n += len(g.Keys)
	}
	owners := make(map[elect.Key]string, n)
	for i, g := range in.Groups {
		for j := range g.Keys {
			if id := p.Groups[i].Owners[j]; id != "" {
				owners[g.Keys[j].Key] = id
			}
		}
	}
	return owners
}

// LeftOver counts the unassigned keys of a group.
func (s Stats) LeftOver() int { return s.Tasks - s.Assigned }
