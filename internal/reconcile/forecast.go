package reconcile

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/shardctl/shardctl/pkg/balancer"
	"github.com/shardctl/shardctl/pkg/elect"
)

// Forecast says who would own what in a cluster that need not exist, before and after it loses members. Its fields are
// ready for JSON; lists are never null.
type Forecast struct {
	Replicas int      `json:"replicas"`
	Lost     []string `json:"lost"` // names of the members lost: those with the most keys
	// MaxTasks is the most keys that each member may own over all groups, as the first one says; 0: no limit.
	MaxTasks int             `json:"maxTasks"`
	Groups   []GroupForecast `json:"groups"`
	// LeftOver counts the keys without an owner in the end, over all groups.
	LeftOver int `json:"leftOver"`
	// Moves counts the keys that change their owner when the members are lost, over all groups.
	Moves int `json:"moves"`
}

// GroupForecast is the forecast for one group.
type GroupForecast struct {
	Name   string `json:"name"`
	Tasks  int    `json:"tasks"` // keys that are not paused
	Cap    *int   `json:"cap"`   // of the first member; null: none
	Before Share  `json:"before"`
	After  Share  `json:"after"` // the same as Before when none is lost
	Moves  int    `json:"moves"`
}

// Share is how a group's keys are shared out at one moment.
type Share struct {
	Instances []InstanceShare `json:"instances"` // those that may own keys of the group, in order of names
	// Capacity is the sum of the members' limits. Free is what of it is not needed; below 0, so many keys are too many.
	// Headroom is what would be free if the largest of these members were lost as well. Null: no limit.
	Capacity *int `json:"capacity"`
	Free     *int `json:"free"`
	Headroom *int `json:"headroom"`
	// LeftOver counts the keys without an owner; Unassigned lists them.
	LeftOver   int              `json:"leftOver"`
	Unassigned []UnassignedTask `json:"unassigned"`
}

// InstanceShare is what one member owns of a group.
type InstanceShare struct {
	Instance string      `json:"instance"`
	Tasks    int         `json:"tasks"`
	Keys     []elect.Key `json:"keys"` // in the order of the group's Keys
}

// UnassignedTask is a key without an owner, and why.
type UnassignedTask struct {
	Key    elect.Key `json:"key"`
	Reason string    `json:"reason"`
}

// Simulate says who would own what with these members, and what happens when lose of them, those with the most keys,
// are lost at once. Owners in groups are left out of account: the forecast begins with an empty cluster. Members that
// are alike are made by [Replicas].
func Simulate(groups []balancer.Group, members []balancer.Member, lose int) Forecast {
	in := balancer.Input{Groups: make([]balancer.Group, len(groups)), Members: members}
	for i, g := range groups {
		g.Keys = slices.Clone(g.Keys)
		for j := range g.Keys {
			g.Keys[j].Owner, g.Keys[j].Reserved = "", ""
		}
		in.Groups[i] = g
	}
	f := Forecast{Replicas: len(members), Lost: []string{}, Groups: make([]GroupForecast, len(groups))}
	before := balancer.Balance(in)
	for i, g := range in.Groups {
		share := shareOf(in, before, i)
		f.Groups[i] = GroupForecast{Name: g.Name, Tasks: before.Groups[i].Stats.Tasks, Before: share, After: share}
	}
	if len(members) > 0 {
		f.MaxTasks = members[0].MaxTasks
		for i := range f.Groups {
			f.Groups[i].Cap = capOf(members[0], f.Groups[i].Name)
		}
	}
	after := before
	if lose > 0 && len(in.Members) > 0 {
		takeOver(in, before)
		in.Members, f.Lost = loseLargest(in.Members, before, lose)
		after = balancer.Balance(in)
		f.countMoves(in, after)
	}
	f.LeftOver = len(after.Unassigned)
	return f
}

func (f *Forecast) countMoves(in balancer.Input, after balancer.Plan) {
	for i, g := range in.Groups {
		f.Groups[i].After = shareOf(in, after, i)
		for j := range g.Keys {
			if to := after.Groups[i].Owners[j]; to != "" && to != g.Keys[j].Owner {
				f.Groups[i].Moves++
				f.Moves++
			}
		}
	}
}

// Replicas are so many members (below 0 counts as 0) like the given one, whose caps, limit, labels, zone and revision
// they have. Names and IDs are replica-1 and on.
func Replicas(n int, like balancer.Member) []balancer.Member {
	digits := len(fmt.Sprint(n)) // names of one length, so that their order is that of their numbers
	members := make([]balancer.Member, max(n, 0))
	for i := range members {
		m := like
		m.Name = fmt.Sprintf("replica-%0*d", digits, i+1)
		m.ID, m.Draining = m.Name, false
		members[i] = m
	}
	return members
}

// takeOver makes the plan's owners the present ones.
func takeOver(in balancer.Input, p balancer.Plan) {
	for i, g := range in.Groups {
		for j := range g.Keys {
			g.Keys[j].Owner = p.Groups[i].Owners[j]
		}
	}
}

// loseLargest leaves out the members that own the most keys, of equals the last by name, and returns their names in
// order.
func loseLargest(members []balancer.Member, p balancer.Plan, lose int) (left []balancer.Member, lost []string) {
	owned := make(map[string]int, len(members))
	for _, g := range p.Groups {
		for _, id := range g.Owners {
			owned[id]++
		}
	}
	left = slices.Clone(members)
	slices.SortFunc(left, func(a, b balancer.Member) int {
		return cmp.Or(cmp.Compare(owned[a.ID], owned[b.ID]), strings.Compare(a.Name, b.Name))
	})
	keep := max(len(left)-lose, 0)
	for _, m := range left[keep:] {
		lost = append(lost, m.Name)
	}
	slices.Sort(lost)
	return left[:keep], lost
}

func capOf(m balancer.Member, group string) *int {
	if limit, ok := m.Caps[group]; ok {
		return &limit
	}
	return nil
}

// shareOf words one group's part of a plan.
func shareOf(in balancer.Input, p balancer.Plan, group int) Share {
	g, stats := in.Groups[group], p.Groups[group].Stats
	s := Share{
		Capacity: stats.Capacity, Headroom: stats.Headroom, LeftOver: stats.LeftOver(),
		Instances: []InstanceShare{}, Unassigned: []UnassignedTask{},
	}
	if stats.Capacity != nil {
		free := *stats.Capacity - stats.Tasks
		s.Free = &free
	}
	members := slices.DeleteFunc(slices.Clone(in.Members), func(m balancer.Member) bool { return !g.MayOwn(&m) })
	slices.SortFunc(members, func(a, b balancer.Member) int { return strings.Compare(a.Name, b.Name) })
	at := make(map[string]int, len(members))
	for i := range members {
		at[members[i].ID] = i
		s.Instances = append(s.Instances, InstanceShare{Instance: members[i].Name, Keys: []elect.Key{}})
	}
	own := make(map[elect.Key]bool)
	for j := range g.Keys {
		id := p.Groups[group].Owners[j]
		if id == "" {
			own[g.Keys[j].Key] = true
			continue
		}
		share := &s.Instances[at[id]]
		share.Tasks++
		share.Keys = append(share.Keys, g.Keys[j].Key)
	}
	for _, u := range p.Unassigned {
		if own[u.Key] {
			s.Unassigned = append(s.Unassigned, UnassignedTask(u))
		}
	}
	return s
}
