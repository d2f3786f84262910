package failover_test

import (
	"fmt"
	"slices"
	"strings"

	"github.com/shardctl/shardctl/test/search"
)

var packing = search.FixedSize[forgetful]()

// search is a search from what the actions before it lead to.
func (s *redisSetting) search(begun forgetful, before []dbAction) search.Scenario[forgetful, dbAction] {
	return search.Scenario[forgetful, dbAction]{
		Space: search.Space[forgetful, dbAction]{
			Packing: packing,
			Each: func(f *forgetful, visit func(dbAction)) {
				at := redisWorld{redisSetting: s, forgetful: *f}
				at.each(visit)
			},
			Do: func(f *forgetful, a dbAction, to *forgetful) search.Step {
				next := redisWorld{redisSetting: s, forgetful: *f}
				next.do(a)
				next.normal()
				*to = next.forgetful
				return search.Step{Broken: next.broken}
			},
		},
		First: s.after(begun, before),
		Trace: func(found *search.Search[forgetful, dbAction]) string {
			return s.trace(begun, slices.Concat(before, found.Way()), found.Broken)
		},
	}
}

// trace says how the broken state was reached.
func (s *redisSetting) trace(begun forgetful, actions []dbAction, broken string) string {
	var b strings.Builder
	ticks := 0
	w := redisWorld{redisSetting: s, forgetful: begun}
	w.log = func(format string, args ...any) {
		fmt.Fprintf(&b, "%3d/%d T  "+format+"\n", append([]any{ticks, s.lease[1]}, args...)...)
	}
	for _, a := range actions {
		if a.kind == actTick {
			ticks++
		}
		w.do(a)
		w.normal()
	}
	fmt.Fprintf(&b, "         >>> %s\n", broken)
	return b.String()
}

// describe writes an action down.
func (w *redisWorld) describe(a dbAction) {
	if w.log == nil {
		return
	}
	node, who := fmt.Sprintf("node %d", a.node+1), clientName(a.p)
	c := &w.clients[a.p]
	switch a.kind {
	case actTick:
		w.say("---- a %s of T passes", map[int8]string{leaseTicks: "third", leaseTicks + 1: "quarter"}[w.lease[1]])
	case actPromote:
		w.say("%s is promoted", node)
	case actUnlink:
		w.say("%s loses its master", node)
	case actLink:
		w.say("%s begins to follow node %d", node, a.x+1)
	case actRestart:
		w.say("%s restarts with an old file", node)
	case actReplicate:
		w.say("%s catches up", node)
	case actOpen:
		w.say("an operator opens the gate of %s%s", node, acknowledgedBy(a.mask))
	case actVisit:
		w.say("a visitor looks at %s%s", node, acknowledgedBy(a.mask))
	case actAsk:
		w.say("%s asks who is there", who)
	case actLearn:
		w.say("%s learns the identity of %s", who, node)
	case actLook:
		w.say("%s lists at %s", who, node)
	case actEnd:
		w.say("the run of %s has ended", who)
	case actHandBack:
		w.say("the run of %s ends in order", who)
	case actDie:
		w.say("%s dies, and its run with it", who)
	case actReopen:
		w.say("%s opens another session", who)
	case actLand:
		w.say("%s of %s is executed at %s", kindName(c.ops[a.x].message), who, node)
	case actAgain:
		w.say("%s of %s is not answered", kindName(c.ops[a.x].message), who)
	case actCopy:
		w.say("a copy of %s of %s stays on its way", kindName(c.ops[a.x].message), who)
	case actReply:
		w.say("%s of %s: %s%s", kindName(c.ops[a.x].message), who, resultName(c.ops[a.x].res), acknowledgedBy(a.mask))
	case actArrive:
		w.say("that reply arrives")
	case actStray:
		w.say("the copy of %s of %s is executed at %s", kindName(w.stray), clientName(w.stray.from), node)
	case actBeat, actInspect, actBury, actClaim, actRelease:
		switch a.prompt {
		case answered:
			w.say("%s %s at %s%s", who, beginning(a.kind), node, acknowledgedBy(a.mask))
		case executed:
			w.say("%s %s at %s, without an answer yet", who, beginning(a.kind), node)
		case sent:
			w.say("%s %s: that takes its time", who, beginning(a.kind))
		}
	}
}

func beginning(k dbActionKind) string {
	return map[dbActionKind]string{
		actBeat: "heartbeats", actInspect: "reads what it holds", actBury: "marks the other session dead",
		actClaim: "claims the key", actRelease: "releases the key",
	}[k]
}

func kindName(m message) string {
	return map[msgKind]string{
		renew: "the heartbeat", inspect: "the read", bury: "the mark", own: "the claim", free: "the release",
	}[m.kind]
}

func resultName(r result) string {
	return map[result]string{
		applied: "applied", refused: "refused", closed: "the gate is closed", shown: "answered",
	}[r]
}

// acknowledgedBy names the replicas that a reply waited for.
func acknowledgedBy(mask int8) string {
	var names []string
	for i := range maxNodes {
		if mask>>i&1 == 1 {
			names = append(names, fmt.Sprint(i+1))
		}
	}
	if len(names) == 0 {
		return ", acknowledged by no replica"
	}
	return ", acknowledged by node " + strings.Join(names, " and ")
}
