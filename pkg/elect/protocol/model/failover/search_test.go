package failover_test

import (
	"fmt"
	"hash/maphash"
	"slices"
	"strings"
)

// dbStep is how a state was first reached.
type dbStep struct {
	from digest
	by   dbAction
}

// dbSearch searches the states of a store that forgets, nearest first.
type dbSearch struct {
	setting redisSetting
	limit   int
	seen    map[digest]dbStep
	steps   int
	depth   int
	whole   bool
	broken  string
	badFrom digest
	badBy   dbAction
}

func (s *dbSearch) search(first forgetful) {
	first.normal()
	start := digestOf(first.bytes())
	s.seen = map[digest]dbStep{start: {}}
	layer, next := []forgetful{first}, []forgetful(nil)
	to := redisWorld{redisSetting: &s.setting}
	for len(layer) > 0 {
		for i := range layer {
			from := digestOf(layer[i].bytes())
			at := redisWorld{redisSetting: &s.setting, forgetful: layer[i]}
			at.each(func(a dbAction) {
				if s.broken != "" {
					return
				}
				s.steps++
				to.forgetful, to.broken = layer[i], ""
				to.do(a)
				if s.broken = to.broken; s.broken != "" {
					s.badFrom, s.badBy = from, a
					return
				}
				to.normal()
				d := digestOf(to.bytes())
				if _, known := s.seen[d]; !known {
					s.seen[d] = dbStep{from, a}
					next = append(next, to.forgetful)
				}
			})
			if s.broken != "" || len(s.seen) >= s.limit {
				return
			}
		}
		s.depth++
		layer, next = next, layer[:0]
	}
	s.whole = true
}

// trace says how the broken state was reached.
func (s *dbSearch) trace(begun forgetful, before []dbAction) string {
	first := s.setting.after(begun, before)
	start := digestOf(first.bytes())
	actions := []dbAction{s.badBy}
	for at := s.badFrom; at != start; at = s.seen[at].from {
		actions = append(actions, s.seen[at].by)
	}
	var b strings.Builder
	ticks := 0
	actions = append(actions, reversed(before)...)
	w := redisWorld{redisSetting: &s.setting, forgetful: begun}
	w.log = func(format string, args ...any) {
		fmt.Fprintf(&b, "%3d/3 T  "+format+"\n", append([]any{ticks}, args...)...)
	}
	for _, a := range slices.Backward(actions) {
		if a.kind == actTick {
			ticks++
		}
		w.do(a)
		w.normal()
	}
	fmt.Fprintf(&b, "         >>> %s\n", s.broken)
	return b.String()
}

func reversed(actions []dbAction) []dbAction {
	r := slices.Clone(actions)
	slices.Reverse(r)
	return r
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
		w.say("---- a third of T passes")
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

var seeds = [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}

// digest names a state. With 128 bits no two of any number of states that can be searched have one name.
type digest [2]uint64

func digestOf(state []byte) digest {
	return digest{maphash.Bytes(seeds[0], state), maphash.Bytes(seeds[1], state)}
}
