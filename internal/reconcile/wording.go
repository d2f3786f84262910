package reconcile

import (
	"fmt"

	"github.com/shardctl/shardctl/internal/record"
	"github.com/shardctl/shardctl/pkg/balancer"
	"github.com/shardctl/shardctl/pkg/elect"
)

// wording puts into words why keys leave this replica by a plan.
type wording struct {
	s       *situation
	in      balancer.Input
	plan    balancer.Plan
	members map[string]*balancer.Member // by ID
	reasons balancer.Reasons
	spread  map[int]string // by group: what balanced returned, which counts all keys
}

func newWording(s *situation, in balancer.Input, plan balancer.Plan) *wording {
	w := &wording{
		s: s, in: in, plan: plan, members: make(map[string]*balancer.Member, len(in.Members)),
		reasons: balancer.ReasonsOf(in.Members, s.view.Session), spread: map[int]string{},
	}
	for i := range in.Members {
		w.members[in.Members[i].ID] = &in.Members[i]
	}
	return w
}

// leaving returns why a key that this replica holds leaves for another member, or for none.
func (w *wording) leaving(group int, k *balancer.Key, to string) Why {
	reason, me := w.reasons.Of(k, to), w.s.view.Instance
	switch o := w.s.overrides; {
	case w.s.view.Draining && w.reasons.Newer(to) && w.s.policy.RestartGrace <= 0:
		return whyOf(record.ReasonUpgrade, "%s is stopping, and %s", me, w.rolled(to))
	case w.s.view.Draining:
		return whyOf(record.ReasonShutdown, "%s is stopping", me)
	case reason == record.ReasonPaused:
		return whyOf(reason, "%s", o.pausedWords(k.Key))
	case reason == record.ReasonMove:
		return whyOf(reason, "moved to %s%s", o.moves[k.Key].To, o.moves[k.Key].Whom())
	case reason == record.ReasonDrain:
		return whyOf(reason, "%s is drained%s", me, o.drained[me].Whom())
	case reason == record.ReasonPin:
		return whyOf(reason, "pinned to %s%s", k.Pin, o.pins[k.Key].Whom())
	case reason == record.ReasonUpgrade:
		return whyOf(reason, "%s", w.rolled(to))
	default:
		if _, known := w.spread[group]; !known {
			w.spread[group] = w.balanced(group)
		}
		return whyOf(reason, "%s", w.spread[group])
	}
}

// rolled tells that a member is of a newer revision.
func (w *wording) rolled(to string) string {
	next, revision := w.members[to], w.members[to].Revision
	if revision == "" {
		revision = `""`
	}
	return fmt.Sprintf("rolled to %s, which has the newer revision %s", next.Name, revision)
}

// balanced returns why the spread takes a key from this replica.
func (w *wording) balanced(group int) string {
	g, stats := &w.in.Groups[group], w.plan.Groups[group].Stats
	me, held := w.s.view.Instance, w.holds(g.Name)
	m := w.members[w.s.view.Session]
	if m == nil {
		return me + " takes no part any more"
	}
	asked := ""
	if o, ok := w.s.overrides.evened[g.Name]; ok {
		asked = ", a rebalance was asked for" + o.Whom()
	}
	share := 0
	for _, id := range w.plan.Groups[group].Owners {
		if id == m.ID {
			share++
		}
	}
	by := ""
	if w.s.declared.Groups[group].WeightRevision > 0 {
		by = ", by weights that follow what is measured"
	}
	limit, limited := m.Limit(g.Name)
	switch {
	case !balancer.Selects(g.Selector, m.Labels):
		return fmt.Sprintf("%s has not the labels %s that the group asks for", me, labelWords(g.Selector))
	case limited && held > limit:
		return fmt.Sprintf("%s owned %d tasks, and may own %d", me, held, limit)
	case held > share:
		return fmt.Sprintf("%s owned %d of %d tasks, its share is %d%s%s", me, held, stats.Tasks, share, by, asked)
	default:
		return "the spread is more even so, with weights, zones and pins" + by + asked
	}
}

func (w *wording) holds(group string) (n int) {
	for key, h := range w.s.view.Held {
		if !h.Releasing && key.Group() == group {
			n++
		}
	}
	return n
}

// claiming returns why this replica claims a key that its last owner released, where the lock does not tell: what
// released it is over. The zero Why leaves it to the lock.
func (s *situation) claiming(key elect.Key) Why {
	lock := s.view.Locks[key]
	switch {
	case lock == nil || lock.Session != "":
		return Why{}
	case lock.Status.Outcome != nil && s.overrides.forgets(lock):
		return whyOf(record.ReasonRerun, "to run again%s", s.overrides.reruns[key].Whom())
	case lock.Suspended && lock.Reason == record.ReasonPaused:
		return whyOf(record.ReasonResumed, "its pause is over")
	case lock.Reason == record.ReasonPin && lock.Next == "" && !s.pinnedHere(key):
		return whyOf(record.ReasonPin, "its strict pin is over")
	case lock.Suspended && lock.Reason == record.ReasonRemoved:
		return whyOf(record.ReasonCreated, "declared again")
	default:
		return Why{}
	}
}
