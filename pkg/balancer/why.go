package balancer

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/shardctl/shardctl/internal/record"
	"github.com/shardctl/shardctl/pkg/elect"
)

// Why is the reason of a decision: one word, and a sentence for people.
type Why struct {
	Reason  elect.Reason
	Message string // at most elect.MaxText bytes
}

// String is the sentence, or the word where there is none.
func (w Why) String() string {
	if w.Message == "" {
		return string(w.Reason)
	}
	return w.Message
}

func whyOf(reason elect.Reason, format string, args ...any) Why {
	return Why{Reason: reason, Message: clip(fmt.Sprintf(format, args...))}
}

// clip cuts a text to what a lock holds, between two letters.
func clip(text string) string {
	text = strings.ToValidUTF8(text, "")
	if len(text) <= elect.MaxText {
		return text
	}
	end := elect.MaxText
	for !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end]
}

// wording puts into words why keys leave this replica by a plan.
type wording struct {
	reasons
	s      *situation
	in     Input
	plan   Plan
	spread map[int]string // by group: what balanced says, which counts all keys
}

func (s *situation) wordingOf(in Input, plan Plan) *wording {
	return &wording{reasons: reasonsFor(in, s.view.Session), s: s, in: in, plan: plan, spread: map[int]string{}}
}

// leaving says why a key that this replica holds leaves for another member, or for none.
func (w *wording) leaving(group int, k *Key, to string) Why {
	reason, me := w.reason(k, to), w.s.view.Instance
	switch o := w.s.overrides; {
	case w.s.view.Draining && w.newer(to) && w.s.policy.RestartGrace <= 0:
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

// newer says whether a member is of a newer revision than this replica.
func (w *wording) newer(to string) bool {
	next := w.roster.find(to)
	return next != none && w.from != none && w.roster.rank[next] > w.roster.rank[w.from]
}

// rolled says that a member is of a newer revision.
func (w *wording) rolled(to string) string {
	next := &w.roster.members[w.roster.find(to)]
	return fmt.Sprintf("rolled to %s, which has the newer revision %s", next.Name, orNone(next.Revision))
}

// balanced says why the spread takes a key from this replica.
func (w *wording) balanced(group int) string {
	g, stats := &w.in.Groups[group], w.plan.Groups[group].Stats
	me, held := w.s.view.Instance, w.holds(g.Name)
	if w.from == none {
		return me + " takes no part any more"
	}
	m := &w.roster.members[w.from]
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
	limit, limited := m.limit(g.Name)
	switch {
	case !g.mayOwn(m):
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

// claiming says why this replica claims a key that its last owner released, where the lock does not say it: what
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

// pinnedHere says whether a pin wants the key on this replica.
func (s *situation) pinnedHere(key elect.Key) bool {
	pin, ok := s.overrides.pins[key]
	zone := ""
	for i := range s.view.Sessions {
		if s.view.Sessions[i].ID == s.view.Session {
			zone = s.view.Sessions[i].Member.Zone
		}
	}
	return ok && PinnedTo(pin.To, s.view.Instance, zone)
}

// pausedWords says who paused a key, or its group.
func (o overrides) pausedWords(key elect.Key) string {
	if asked, ok := o.paused[key]; ok {
		return "paused" + asked.Whom()
	}
	if asked, ok := o.pausedGroups[key.Group()]; ok {
		return "its group is paused" + asked.Whom()
	}
	return "its run has ended for good"
}

func orNone(revision string) string {
	if revision == "" {
		return `""`
	}
	return revision
}
