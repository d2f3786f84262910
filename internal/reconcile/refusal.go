package reconcile

import (
	"fmt"
	"slices"
	"strings"

	"github.com/shardctl/shardctl/pkg/balancer"
	"github.com/shardctl/shardctl/pkg/elect"
)

// Refusal is a key that the plan gives to none, and why.
type Refusal struct {
	Key     elect.Key
	Reason  string // balancer.NoCapacity, NoInstance or PinUnavailable
	Message string // the same for people, with numbers and names; keys of one group may share it
}

// refuser puts into words why keys have no owner.
type refuser struct {
	s      *situation
	in     balancer.Input
	plan   balancer.Plan
	groups map[string]int    // by name: where in the input
	shared map[string]string // by group: what is said of all without capacity
}

// refusalsOf returns why each key without an owner in the plan has none.
func refusalsOf(s *situation, in balancer.Input, plan balancer.Plan) []Refusal {
	if len(plan.Unassigned) == 0 {
		return nil
	}
	r := refuser{s: s, in: in, plan: plan, groups: make(map[string]int, len(in.Groups)), shared: map[string]string{}}
	for i := range in.Groups {
		r.groups[in.Groups[i].Name] = i
	}
	list := make([]Refusal, len(plan.Unassigned))
	for i, u := range plan.Unassigned {
		list[i] = Refusal{Key: u.Key, Reason: u.Reason, Message: r.words(u)}
	}
	return list
}

func (r *refuser) words(u balancer.Unassigned) string {
	at := r.groups[u.Key.Group()]
	if u.Reason == balancer.PinUnavailable {
		return clip(r.pinned(u.Key, &r.in.Groups[at]))
	}
	id := u.Reason + "/" + u.Key.Group()
	if _, known := r.shared[id]; !known {
		text := r.noCapacity(at)
		if u.Reason == balancer.NoInstance {
			text = r.noInstance(&r.in.Groups[at])
		}
		r.shared[id] = clip(text)
	}
	return r.shared[id]
}

// noCapacity counts what there is: "5 replicas × cap 20 = 100, 104 tasks".
func (r *refuser) noCapacity(at int) string {
	g, stats := &r.in.Groups[at], r.plan.Groups[at].Stats
	var limits []int
	sum, perAll := 0, false
	for i := range r.in.Members {
		m := &r.in.Members[i]
		if m.Draining || !g.MayOwn(m) || r.closed(g, m) != "" {
			continue
		}
		limit, _ := m.Limit(g.Name)
		limits = append(limits, limit)
		sum += limit
		perAll = perAll || m.MaxTasks > 0
	}
	text := fmt.Sprintf("no capacity: %s for %d", count(len(limits), "replica"), sum)
	if len(limits) > 0 && slices.Min(limits) == slices.Max(limits) && !perAll {
		text = fmt.Sprintf("no capacity: %s × cap %d = %d", count(len(limits), "replica"), limits[0], sum)
	}
	text += fmt.Sprintf(", %s", count(stats.Tasks, "task"))
	if perAll {
		text += ", and maxTasks bounds what a replica owns of all groups"
	}
	for i := range r.in.Members {
		m := &r.in.Members[i]
		if !g.MayOwn(m) {
			continue
		}
		if why := r.closed(g, m); why != "" {
			text += fmt.Sprintf("; %s is not counted: %s", m.Name, why)
		}
	}
	return text
}

// closed returns why a member gets no new keys of a group, or an empty text if it may.
func (r *refuser) closed(g *balancer.Group, m *balancer.Member) string {
	o := r.s.overrides
	switch asked, drained := o.drained[m.Name]; {
	case drained:
		return "drained" + asked.Whom()
	case m.Draining:
		return "it is stopping"
	}
	if asked, cordoned := o.cordoned[m.Name]; cordoned {
		return "cordoned" + asked.Whom()
	}
	if m.ID == r.s.view.Session {
		return ""
	}
	for _, declared := range r.s.declared.Groups {
		if v := r.s.sessions[m.ID]; declared.Name == g.Name && v != nil &&
			v.Member.ListHashes[g.Name] != declared.Hash {
			return "it has another task list"
		}
	}
	return ""
}

func (r *refuser) noInstance(g *balancer.Group) string {
	const none = "no live instance may own it: "
	var leaving []string
	for i := range r.in.Members {
		if m := &r.in.Members[i]; g.MayOwn(m) && m.Draining {
			leaving = append(leaving, m.Name+" is "+strings.Replace(r.closed(g, m), "it is ", "", 1))
		}
	}
	switch {
	case len(leaving) > 0:
		return none + strings.Join(leaving, ", ")
	case len(g.Selector) > 0:
		return none + "none has the labels " + labelWords(g.Selector)
	default:
		return none + "none takes part"
	}
}

// pinned returns why a strictly pinned key does not find its member.
func (r *refuser) pinned(key elect.Key, g *balancer.Group) string {
	lock := r.s.view.Locks[key]
	pin, asked := r.s.overrides.pins[key]
	if lock != nil && !asked {
		if from, waits := r.s.waitsFor(lock); waits {
			return fmt.Sprintf("waits for %s to come back, for %s after it stopped (rebalance.restartGrace)",
				from, r.s.policy.RestartGrace)
		}
	}
	text := fmt.Sprintf("pinned strictly to %s%s: ", pin.To, pin.Whom())
	var found []string
	for i := range r.in.Members {
		m := &r.in.Members[i]
		if !balancer.PinnedTo(pin.To, m.Name, m.Zone) {
			continue
		}
		switch why := r.closed(g, m); {
		case why != "":
			found = append(found, m.Name+" is "+strings.Replace(why, "it is ", "", 1))
		case !g.MayOwn(m):
			found = append(found, m.Name+" has not the labels "+labelWords(g.Selector))
		default:
			limit, _ := m.Limit(g.Name)
			found = append(found, fmt.Sprintf("%s is full, it may own %d", m.Name, limit))
		}
	}
	if len(found) == 0 {
		return text + "no live replica matches"
	}
	return text + strings.Join(found, ", ")
}
