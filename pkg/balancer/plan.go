package balancer

import "github.com/shardctl/shardctl/pkg/elect"

// Input is all that a plan depends on. Balance does not change it and keeps nothing of it but strings.
type Input struct {
	// Members are the live and draining sessions, in any order, each ID once. Keys of any other owner are orphans.
	Members []Member
	// Groups, in any order, each name once, and each key once in all of them.
	Groups []Group
	// Even asks for even quotas also while two revisions live concurrently. Else a rolling update is assumed to be
	// under way, and held keys stay until their owner drains or dies.
	Even bool
}

// Member is a session that may own keys.
type Member struct {
	ID       string // the session's uuid
	Name     string // of the instance; several members may have it for a while
	Zone     string // empty: unknown
	Revision string // of the program or pod template
	Opened   int64  // the store's clock in Unix ms when the process opened its first session
	Draining bool   // it gives up everything and gets nothing
	MaxTasks int    // most keys over all groups; 0: no limit
	// Caps holds the most keys by group, 0 included; no cap for a group that is absent.
	Caps   map[string]int
	Labels map[string]string
}

// Group is a set of keys spread together.
type Group struct {
	Name string
	// Selector says which members may own the keys: those with all of these labels. Empty: all.
	Selector map[string]string
	Keys     []Key // in any order; in ascending order is fastest
	Even     bool  // as [Input].Even, for this group
}

// Key is what is to be owned.
type Key struct {
	Key    elect.Key
	Weight int    // share of the load; less than 1 counts as 1
	Owner  string // member ID; empty or unknown: it has no owner
	// Reserved is the ID of the member it is being handed to: for the plan it is there already.
	Reserved string
	// Move is the ID of the member that an operator wants it at. It is left out of account where that one has no
	// capacity for it, and ends once the key has moved.
	Move string
	// Pin names who shall own the key: an instance, a pattern as in path.Match, or zone=ZONE. Empty: any. It is a
	// preference, left out of account while no such member lives or has free capacity; with Strict the key stays
	// unassigned then.
	Pin    string
	Strict bool
	// Paused keys get no owner. So do done and failed ones.
	Paused bool
	// Settled keys are not moved for spread, for zones or to a newer revision. The plan still takes them from a
	// draining member, from one that may not own them, and from one above its cap. It also moves them to where they are
	// pinned.
	Settled bool
}

func (k *Key) weight() int { return max(k.Weight, 1) }

// Limit returns the most keys of a group that m may own, by its cap and by its limit over all groups; false: it has
// neither.
func (m *Member) Limit(name string) (int, bool) {
	limit, ok := m.Caps[name]
	switch {
	case m.MaxTasks <= 0:
	case !ok || m.MaxTasks < limit:
		limit, ok = m.MaxTasks, true
	}
	return max(limit, 0), ok
}

// MayOwn reports whether m carries all labels that the group selects by.
func (g *Group) MayOwn(m *Member) bool { return Selects(g.Selector, m.Labels) }

// Selects reports whether a group with this selector may be owned by a member with these labels.
func Selects(selector, labels map[string]string) bool {
	for name, want := range selector {
		if got, ok := labels[name]; !ok || got != want {
			return false
		}
	}
	return true
}

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
